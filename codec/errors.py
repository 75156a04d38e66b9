"""Every error that gsvc raises on purpose.

GsvcError
├── ConfigError            (ValueError)           a setting out of range or in conflict
├── InputError             (ValueError)           a source that is not usable video
│   └── UnsupportedInputError (NotImplementedError)  real video of a kind that is refused: HDR, alpha
├── BitstreamError         (ValueError)           bytes that are not a valid stream
│   ├── TruncatedStreamError  (EOFError)          a stream that ends before its end packet
│   ├── ChecksumError                             a packet or header whose CRC-32C does not match
│   ├── LimitError                                a field beyond the limits on untrusted input
│   └── VersionError       (NotImplementedError)  another version's stream, or an unknown required packet
├── OutputError            (OSError)              the output cannot be written
├── MissingModelError      (FileNotFoundError)    an extractor or back end whose weights are not here
├── MissingDependencyError (ImportError)          an optional package is not installed
└── DeviceError            (RuntimeError)         the device asked for is not there

Each message is one line: what is wrong, then what to do. The command line prints it and exits with 1
(2 for `ConfigError`).
"""


class GsvcError(Exception):
    """Base class of every error raised by gsvc."""


class ConfigError(GsvcError, ValueError):
    """A setting is out of range or conflicts with another; the message names the permitted values."""


class InputError(GsvcError, ValueError):
    """The source cannot be read as video."""


class UnsupportedInputError(InputError, NotImplementedError):
    """The source is video, but of a kind gsvc refuses (HDR, alpha)."""


class BitstreamError(GsvcError, ValueError):
    """The bytes are not a valid gsvc stream."""


class TruncatedStreamError(BitstreamError, EOFError):
    """The stream ends before its end packet."""


class ChecksumError(BitstreamError):
    """A CRC-32C does not match: bytes were changed on the way."""


class LimitError(BitstreamError):
    """A field of the stream exceeds the limits on untrusted input."""


class VersionError(BitstreamError, NotImplementedError):
    """The stream needs another version of gsvc."""


class OutputError(GsvcError, OSError):
    """The output cannot be written."""


class MissingModelError(GsvcError, FileNotFoundError):
    """Weights are not on this machine; the message names the command that brings them."""


class MissingDependencyError(GsvcError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""


class DeviceError(GsvcError, RuntimeError):
    """The compute device that was asked for is not available."""
