"""The errors of gsvc.

GsvcError
├── ConfigError (ValueError)                      a setting is out of range or in conflict
│   └── WrongTypeError (TypeError)                an argument is of another type
├── InputError (ValueError)                       the source cannot be read as video
│   └── UnsupportedInputError (NotImplementedError)  HDR, alpha
├── BitstreamError (ValueError)                   the bytes are no valid stream
│   ├── TruncatedStreamError (EOFError)           the stream ends before its end packet
│   ├── ChecksumError                             a CRC-32C does not match
│   ├── LimitError                                a field exceeds the limits on untrusted input
│   └── VersionError (NotImplementedError)        the stream needs another version of gsvc
├── OutputError (OSError)                         the output cannot be written
├── MissingModelError (FileNotFoundError)         weights are not on this machine
├── MissingDependencyError (ImportError)          an optional package is not installed
└── DeviceError (RuntimeError)                    the device is not available

Each message is one line: what is wrong, then what to do. The command line prints it and exits with
1, for `ConfigError` with 2.
"""


class GsvcError(Exception):
    """Base class of every error raised by gsvc."""


class ConfigError(GsvcError, ValueError):
    """A setting is out of range or conflicts with another; the message names permitted values."""


class WrongTypeError(ConfigError, TypeError):
    """An argument is of another type than it should be; the message names both."""


class InputError(GsvcError, ValueError):
    """The source cannot be read as video."""


class UnsupportedInputError(InputError, NotImplementedError):
    """The source is video of a kind that gsvc refuses: HDR, alpha."""


class BitstreamError(GsvcError, ValueError):
    """The bytes are not a valid gsvc stream."""


class TruncatedStreamError(BitstreamError, EOFError):
    """The stream ends before its end packet."""


class ChecksumError(BitstreamError):
    """A CRC-32C does not match: bytes changed on the way."""


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
