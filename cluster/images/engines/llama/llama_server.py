"""llama.cpp's server with the options that Daybreak passes to `llama-server`.

The package xllamacpp contains llama.cpp's server, with its HTTP API, but not the parser of its command line.
This program parses the options and rejects all others.
"""

import argparse
import signal

import xllamacpp


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; any unknown option ends the program."""
    parser = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--ctx-size", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=1)
    return parser.parse_args(words)


def main() -> None:
    """Serve until the process receives SIGTERM or SIGINT."""
    options = parse()
    signals = {signal.SIGTERM, signal.SIGINT}
    # The server's threads inherit the mask, so that only this thread receives the signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.alias}
    params.hostnames = [options.host]
    params.port = options.port
    params.endpoint_metrics = options.metrics
    params.n_ctx = options.ctx_size
    params.n_parallel = options.parallel
    server = xllamacpp.Server(params)
    print(f"listening at {server.listening_address}", flush=True)
    signal.sigwait(signals)


if __name__ == "__main__":
    main()
