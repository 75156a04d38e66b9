"""Layouts of processes: what each takes of a device's memory, and what it costs."""

from dataclasses import dataclass

from gsvc.decoders.training.layouts.needs import Needs


@dataclass(frozen=True)
class Devices:
    """What there is."""

    count: int
    memory: int
    """Bytes of each."""
    bandwidth: float
    """Bytes a second between two of them."""
    speed: float
    """Operations a second of each, as training reaches them."""


@dataclass(frozen=True)
class Layout:
    """A way to spread a run, and what it takes for each device."""

    name: str
    options: str
    """Of `gsvc train shards`."""
    memory: int
    """Bytes."""
    exchanged: int
    """Bytes a step."""
    recomputed: int
    """Operations a step beyond the plain ones."""
    seconds: float
    """Of a step, exchange and computation one after the other."""

    def missing(self, devices: Devices) -> int:
        """Bytes that a device lacks; 0 where it fits."""
        return max(0, self.memory - devices.memory)


def layouts(needs: Needs, batch: int, devices: Devices) -> list[Layout]:
    """All there are, `batch` being the samples of a device.

    What is exchanged, C = T (P + G + O) + k M_miss, is by layout: replicas all-reduce gradients,
    2 (N - 1) / N of G; FSDP2 gathers parameters forwards and backwards and scatters gradients, (N -
    1) / N of 2 P + G, and O never moves. What recomputing saves, M_miss, costs no bytes but a
    forward pass: its k is operations. Tensor parallelism is none of them: it splits matrices of
    transformers, and these networks are convolutions of 17 M parameters at most.
    """
    count = devices.count
    share = (count - 1) / count
    made = []
    for again in (False, True):
        held = needs.fixed + needs.activations(batch, again)
        more = batch * (needs.recomputed_flops - needs.flops) if again else 0
        work = (batch * needs.flops + more) / devices.speed
        ways = [("one" if count == 1 else "replicas", needs.state, 2 * share * needs.gradients)]
        if count > 1:
            moved = share * (2 * needs.parameters + needs.gradients)
            ways.append(("fsdp", needs.state // count + 2 * needs.gathered, moved))
        for name, state, moved in ways:
            seconds = work + moved / devices.bandwidth
            options = f"--layout {name}" if name != "one" else ""
            options = f"{options} {'--recompute' if again else ''}".strip()
            label = f"{name}, recomputing" if again else name
            made.append(Layout(label, options, state + held, int(moved), more, seconds))
    return made


def chosen(found: list[Layout], devices: Devices) -> Layout | None:
    """The quickest that fits; None where none does."""
    fitting = [each for each in found if not each.missing(devices)]
    return min(fitting, key=lambda each: each.seconds, default=None)


def most_samples(needs: Needs, devices: Devices) -> int:
    """Samples of a device in the layout that takes least; 0 where not even one fits."""
    count = 0
    while any(not each.missing(devices) for each in layouts(needs, count + 1, devices)):
        count += 1
        if count == 1 << 16:
            break
    return count
