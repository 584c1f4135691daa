"""How a metric looks in Prometheus text: family names, units, escaping, and exact numbers."""

from typing import Final, Literal

import msgspec

from pipeline.records import Kind, Metric

Naming = Literal["rezolus", "prometheus"]

# Recorded unit: Prometheus's base unit, and how many decimal digits the value moves right.
BASE_UNITS: Final = {
    "nanoseconds": ("seconds", 9),
    "seconds": ("seconds", 0),
    "bytes": ("bytes", 0),
    "bytes/second": ("bytes_per_second", 0),
    "microjoules": ("joules", 6),
    "milliJoules": ("joules", 3),
    "milliwatts": ("watts", 3),
    "microwatts": ("watts", 6),
    "millivolts": ("volts", 3),
    "milliamps": ("amperes", 3),
    "Celsius": ("celsius", 0),
    "millidegrees Celsius": ("celsius", 3),
    "Hz": ("hertz", 0),
    "percentage": ("ratio", 2),
}


class Family(msgspec.Struct, frozen=True):
    """What a block of samples has in common.

    Attributes:
        sample: the name its samples carry.
        name: the name its header lines carry; OpenMetrics leaves `_total` off there.
        type: as in the TYPE line.
        unit: as in the UNIT line, empty for none.
        digits: how many decimal digits the recorded integers are moved right.
    """

    sample: str
    name: str
    type: str
    unit: str
    help: str
    digits: int

    def header(self, openmetrics: bool) -> str:
        """HELP, TYPE and UNIT lines."""
        help = self.help.replace("\\", r"\\").replace("\n", r"\n")
        if openmetrics:
            help = help.replace('"', r"\"")
        lines = f"# HELP {self.name} {help}\n# TYPE {self.name} {self.type}\n"
        return lines + (f"# UNIT {self.name} {self.unit}\n" if self.unit else "")


def family(metric: Metric, naming: Naming, openmetrics: bool, histograms: str) -> Family:
    """The family a metric belongs to.

    Under `rezolus` names stay as they are. OpenMetrics wants every counter to end in `_total` and every
    unit to end its family's name; where a name does not, the type there is `unknown` and the unit left
    out, since a name that changed with the negotiated format would split every series in two.
    """
    name, digits, unit = metric.name, 0, metric.unit
    if metric.kind is Kind.HISTOGRAM and histograms == "classic":
        kind, name = "histogram", f"{name}_distribution"
    else:
        kind = "counter" if metric.kind is Kind.COUNTER else "gauge"
    if naming == "prometheus":
        unit, digits = BASE_UNITS.get(unit, ("", 0))
        name = f"{name}_{unit}" if unit and not name.endswith(f"_{unit}") else name
        sample = f"{name}_total" if kind == "counter" else name
        return Family(sample, name if openmetrics else sample, kind, unit, metric.help, digits)
    if openmetrics:
        kind = "unknown" if kind == "counter" else kind
        unit = unit if name.endswith(f"_{unit}") else ""
    return Family(name, name, kind, unit, metric.help, digits)


def label_text(labels: dict[str, str]) -> str:
    """Labels as they stand between the braces, sorted; internal ones (`__`) left out."""
    return ",".join(
        f'{name}="{escape(value)}"' for name, value in sorted(labels.items()) if not name.startswith("__")
    )


def escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def decimal(value: int, digits: int) -> str:
    """An integer moved `digits` decimal digits right, exactly."""
    whole, part = divmod(abs(value), 10**digits)
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}.{part:0{digits}d}".rstrip("0").rstrip(".") if digits else f"{sign}{whole}"
