"""A pipeline: a preprocessor, then sentiment and summary at once, then both joined.

The models are plain functions, so that this runs anywhere: sentiment counts words of two lists, and the
summary is the sentences whose words are frequent. A real sentiment comes with
`daybreak_runtime.loaders.HuggingFace`, a real summary from an LLM: Transformers 5 has no pipeline for one.
`importPath: documents:app`.
"""

import re
from collections import Counter
from typing import TypedDict

from daybreak_runtime.models import BadInput, Model, application
from daybreak_runtime.pipelines import together

GOOD = {"excellent", "fast", "good", "great", "helpful", "love", "reliable", "wonderful"}
BAD = {"awful", "bad", "broken", "hate", "poor", "slow", "terrible", "useless"}


class WordSentiment(Model):
    """POSITIVE, NEGATIVE or NEUTRAL by the words of two lists."""

    def predict(self, text: list[str]) -> list[str]:
        """One label for each text."""
        return [self._label(re.findall(r"[a-z]+", each.lower())) for each in text]

    @staticmethod
    def _label(words: list[str]) -> str:
        score = sum((word in GOOD) - (word in BAD) for word in words)
        return "NEUTRAL" if score == 0 else "POSITIVE" if score > 0 else "NEGATIVE"


class FrequentSentences(Model):
    """The sentences with the most frequent words, as many as `settings.sentences` says."""

    def predict(self, text: list[str]) -> list[str]:
        """One summary for each text."""
        return [self._summary(each, int(self.settings.get("sentences", 1))) for each in text]

    @staticmethod
    def _summary(text: str, count: int) -> str:
        sentences = re.split(r"(?<=[.!?])\s+", text)
        frequent = Counter(re.findall(r"[a-z]{4,}", text.lower()))

        def weight(sentence: str) -> float:
            words = re.findall(r"[a-z]{4,}", sentence.lower())
            return sum(frequent[word] for word in words) / (len(words) or 1)

        chosen = sorted(sentences, key=weight, reverse=True)[:count]
        return " ".join(sentence for sentence in sentences if sentence in chosen)


class Result(TypedDict):
    """What the pipeline gives. A summary that failed or took too long is empty, and named in `failed`."""

    sentiment: str
    summary: str
    failed: list[str]


class Documents(Model):
    """Cleans a text, asks both models at once, and joins what they say."""

    def preprocess(self, text: str) -> str:
        """The text without markup and repeated blanks."""
        clean = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)).strip()
        if not clean:
            raise BadInput("the text is empty")
        return clean

    async def predict(self, text: str) -> Result:
        """Both at once. Without a summary there is an answer all the same."""
        joined = await together(
            {
                "sentiment": self.uses["sentiment"](text=[text]),
                "summary": self.uses["summary"](text=[text]),
            },
            within=float(self.settings.get("within", 10)),
            needed=["sentiment"],
        )
        summary = joined["summary"]["output"][0] if "summary" in joined else ""
        return {
            "sentiment": joined["sentiment"]["output"][0],
            "summary": summary,
            "failed": list(joined.errors),
        }


app = application(Documents, uses={"sentiment": WordSentiment, "summary": FrequentSentences})
