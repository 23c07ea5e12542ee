"""A small world around the state machine of sleep and wake: gateways, requests, models, and an operator."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from daybreak.api.gates.gate_state import GateState
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import decide, start, step
from daybreak.gates.traffic import AgedReport, Traffic, together
from daybreak.protocol.reports import Report

BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)
BROKEN = "the weights do not fit"


@dataclass
class Gateway:
    """It treats requests as the gate says, in the version that it knows."""

    epoch: int
    gate: GateState
    last: datetime
    """Last arrival or end."""
    held: int = 0
    in_flight: int = 0

    def arrive(self, now: datetime) -> None:
        self.last = now
        if self.gate is GateState.OPEN:
            self.in_flight += 1
        elif self.gate is GateState.CLOSED:
            self.held += 1

    def release(self) -> None:
        """Let one who was held through: it is done gradually, and no more once the gate has closed again."""
        if self.gate is GateState.OPEN and self.held:
            self.held -= 1
            self.in_flight += 1

    def end(self, now: datetime) -> None:
        if self.in_flight:
            self.in_flight -= 1
            self.last = now

    def leave(self, now: datetime) -> None:
        """Remove a held client."""
        if self.held:
            self.held -= 1
            self.last = now

    def carry_out(self, epoch: int, gate: GateState, now: datetime) -> None:
        self.epoch, self.gate = epoch, gate
        if gate is GateState.FAILED and self.held:
            self.held = 0
            self.last = now

    def report(self, now: datetime) -> Report:
        return Report(
            epoch=self.epoch,
            gate=self.gate.value.lower(),
            arrivals=0,
            held=self.held,
            in_flight=self.in_flight,
            idle_ms=(now - self.last) // timedelta(milliseconds=1),
            servers_up=1,
        )


@dataclass
class Sleeper:
    """A service, its gateways, and what the operator knows of them."""

    sleep_policy: SleepPolicy
    gateways: list[Gateway]
    now: datetime = BEGIN
    sleep_state: SleepState = field(default_factory=lambda: start(BEGIN, SleepPolicy(None)))
    broken: bool = False
    """True if the models cannot start."""
    up: bool = False
    """True if the models answer."""
    updating: bool = False
    hindered: bool = False
    """True if the update lacks capacity."""
    desired: bool = False
    """True if another workload waits for the accelerators."""
    replaces: bool = False
    """True if the pods must be replaced."""
    drain: timedelta = timedelta(minutes=2)
    """Time that requests in progress have when its pods are replaced."""
    received: dict[int, tuple[datetime, Report]] = field(default_factory=dict)
    """The last report of each gateway, and when it came: not how the gateway is now."""
    gates: list[tuple[int, GateState]] = field(default_factory=list)
    """Every gate that was ever written, in order."""

    def __post_init__(self) -> None:
        self.gates.append((self.sleep_state.epoch, self.sleep_state.gate))

    @property
    def traffic(self) -> Traffic:
        """Return the traffic that the operator assumes."""
        rows = [self.received.get(number) for number in range(len(self.gateways))]
        return together(
            (None if row is None else {"m": AgedReport(row[1], self.now - row[0])} for row in rows), "m"
        )

    @property
    def health(self) -> Health:
        """Return the health of the models. They cannot be up while their objects are down."""
        failed = BROKEN if self.broken and not self.up else ""
        return Health(
            answers=self.up,
            drain=self.drain,
            failed=failed,
            updating=self.updating,
            hindered=self.hindered,
            gives_way=self.desired,
            replaces=self.replaces,
        )

    def look(self) -> SleepState:
        """Let the operator observe, decide and write. Returns its previous decision."""
        before = self.sleep_state
        self.sleep_state = step(before, self.sleep_policy, self.traffic, self.health, self.now)
        if self.sleep_state.epoch != before.epoch:
            self.gates.append((self.sleep_state.epoch, self.sleep_state.gate))
        if self.sleep_state.asleep is not None:
            self.up = False
        return before

    def look_again(self) -> timedelta | None:
        """Return the time until the next requeue, or None."""
        found = decide(self.sleep_state, self.sleep_policy, self.traffic, self.health, self.now)
        return found.look_again

    def receive(self, number: int) -> None:
        """Deliver a gateway's report to the operator."""
        self.received[number] = (self.now, self.gateways[number].report(self.now))

    def carry_out(self, number: int, *, late: int = 0) -> None:
        """Deliver a gate to a gateway: not always the latest, but never one older than it knows."""
        gateway = self.gateways[number]
        coming = [gate for gate in self.gates if gate[0] > gateway.epoch]
        if coming:
            gateway.carry_out(*coming[max(0, len(coming) - 1 - late)], self.now)

    def restart_gateway(self, number: int) -> None:
        """Lose the gateway's requests. It reads the gate before it accepts any; the operator may miss it."""
        self.gateways[number] = Gateway(*self.gates[-1], last=self.now)

    def restart_operator(self) -> None:
        """Restart the operator: only written state stays, with times in whole seconds."""
        self.received.clear()
        self.sleep_state = replace(self.sleep_state, since=self.sleep_state.since.replace(microsecond=0))

    def round(self) -> SleepState:
        """Let every component act once, without time passing. Returns the previous state."""
        self.updating = False
        if self.sleep_state.asleep is None and not self.broken:
            self.up = True
        for number, gateway in enumerate(self.gateways):
            self.carry_out(number)
            while gateway.gate is GateState.OPEN and gateway.held:
                gateway.release()
            self.receive(number)
        return self.look()
