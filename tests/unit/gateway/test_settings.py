"""The gateway's environment variables."""

from dataclasses import replace
from pathlib import Path

import pytest

from daybreak.gateway.agent.settings import LARGEST_BODY, USUAL_MEMORY, Settings
from daybreak.gateway.environment import InvalidSettings


def test_unset_variables_have_defaults() -> None:
    settings = Settings.from_environment({"POD_NAMESPACE": "models"})
    assert (settings.namespace, settings.http_port, settings.drain_seconds) == ("models", 9180, 300)
    config = settings.haproxy
    assert (config.first_port, config.last_port, config.address) == (20000, 21023, "::")
    assert settings.router.port == 19999
    assert config.folder == settings.router.folder == Path("/run/daybreak-gateway")


def test_buffer_budgets_depend_on_memory() -> None:
    settings = Settings.from_environment({"POD_NAMESPACE": "models"})
    assert settings.memory == 2**30
    small = replace(settings, memory=2**29)
    assert small.haproxy.hold_bytes == 3 * 2**26
    assert small.router.budget_bytes == 2**27


@pytest.mark.parametrize("memory", [2**28, 2**29, 2**30, 2**33])
def test_largest_late_body_is_one_clients_share_of_the_memory(memory: int) -> None:
    settings = replace(Settings.from_environment({"POD_NAMESPACE": "models"}), memory=memory)
    router = settings.router
    assert router.max_body_bytes == min(LARGEST_BODY, router.share_bytes)
    assert settings.haproxy.late_bytes == router.max_body_bytes
    assert (router.max_body_bytes == LARGEST_BODY) == (memory >= USUAL_MEMORY)


@pytest.mark.parametrize(
    ("address", "own"), [("::", "127.0.0.1"), ("*", "127.0.0.1"), ("10.0.0.7", "10.0.0.7")]
)
def test_router_reaches_the_address_that_services_are_bound_to(address: str, own: str) -> None:
    settings = Settings.from_environment({"POD_NAMESPACE": "models", "GATEWAY_ADDRESS": address})
    assert settings.router.gateway_address == own


def test_all_variables_are_read() -> None:
    settings = Settings.from_environment(
        {
            "POD_NAMESPACE": "models",
            "GATEWAY_HTTP_PORT": "9000",
            "GATEWAY_FIRST_PORT": "30000",
            "GATEWAY_SLOTS": "16",
            "GATEWAY_ROUTER_PORT": "29999",
            "GATEWAY_ROUTE_FIRST_PORT": "29000",
            "GATEWAY_ROUTE_SLOTS": "4",
            "GATEWAY_SERVE_PORT": "8001",
            "GATEWAY_REPLICA_PORT": "8101",
            "GATEWAY_ADDRESS": "127.0.0.1",
            "GATEWAY_FOLDER": "/tmp/gw",  # noqa: S108 -- only a name here
            "GATEWAY_KEYS_FOLDER": "/tmp/keys",  # noqa: S108 -- only a name here
            "GATEWAY_TOKEN_FILE": "/tmp/gw/token",  # noqa: S108 -- only a name here
            "GATEWAY_LEAVE_SECONDS": "0",
            "GATEWAY_DRAIN_SECONDS": "60",
            "LOG_LEVEL": "DEBUG",
            "GATEWAY_WATCHDOG": "7",
        }
    )
    folder, keys = Path("/tmp/gw"), Path("/tmp/keys")  # noqa: S108
    assert settings == Settings(
        "models",
        9000,
        30000,
        16,
        29999,
        range(29000, 29004),
        8001,
        8101,
        "127.0.0.1",
        folder,
        keys,
        folder / "token",
        0,
        60,
        None,
        "debug",
        7,
    )


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"POD_NAMESPACE": " "}, "POD_NAMESPACE"),
        ({"GATEWAY_HTTP_PORT": "0"}, "GATEWAY_HTTP_PORT"),
        ({"GATEWAY_FIRST_PORT": "65000", "GATEWAY_SLOTS": "1024"}, "GATEWAY_SLOTS"),
        ({"GATEWAY_DRAIN_SECONDS": "5m"}, "GATEWAY_DRAIN_SECONDS"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL"),
    ],
)
def test_invalid_variable_is_named_in_error(environment: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidSettings, match=named):
        Settings.from_environment({"POD_NAMESPACE": "models"} | environment)
