"""A pipeline: a preprocessor, then sentiment and summary in parallel, then a join of both results.

The models are plain functions, so that this sample runs anywhere. Sentiment counts words of two lists, and
the summary has the sentences with frequent words. For real sentiment, use
`daybreak_runtime.loaders.HuggingFace`. For a real summary, use an LLM: Transformers 5 has no pipeline for
summaries. `importPath: documents:app`.
"""

import re
from collections import Counter
from typing import TypedDict

from daybreak_runtime.models import BadInput, Model, application
from daybreak_runtime.pipelines import together

GOOD = {"excellent", "fast", "good", "great", "helpful", "love", "reliable", "wonderful"}
BAD = {"awful", "bad", "broken", "hate", "poor", "slow", "terrible", "useless"}


class WordSentiment(Model):
    """Sentiment model: POSITIVE, NEGATIVE or NEUTRAL, by the words of two lists."""

    def predict(self, text: list[str]) -> list[str]:
        """Return one label for each text."""
        return [self._label(re.findall(r"[a-z]+", each.lower())) for each in text]

    @staticmethod
    def _label(words: list[str]) -> str:
        score = sum((word in GOOD) - (word in BAD) for word in words)
        return "NEUTRAL" if score == 0 else "POSITIVE" if score > 0 else "NEGATIVE"


class FrequentSentences(Model):
    """Summary model: the `settings.sentences` sentences with the most frequent words."""

    def predict(self, text: list[str]) -> list[str]:
        """Return one summary for each text."""
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
    """Result of the pipeline. A summary that failed or took too long is empty and listed in `failed`."""

    sentiment: str
    summary: str
    failed: list[str]


class Documents(Model):
    """Pipeline that cleans a text, calls both models in parallel, and joins their results."""

    def preprocess(self, text: str) -> str:
        """Return the text without markup and repeated spaces."""
        clean = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)).strip()
        if not clean:
            raise BadInput("the text is empty")
        return clean

    async def predict(self, text: str) -> Result:
        """Call both models in parallel, and answer even if the summary fails."""
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
