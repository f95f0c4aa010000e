import BrokerAPI
import Glibc
import Principals

/// Why a connection gets no credential. Each has the user's next step.
enum CredentialRefusal: Error, Equatable {
  /// The other end has no name as systemd gives it.
  case unnamed
  /// Not the manager's user.
  case foreignUser(UInt32)
  /// Its control group could not be read, or does not belong to a unit.
  case unknownUnit
  /// It says that it asks for one unit, and is another's.
  case otherUnit(found: String)
  /// The kernel does not identify it.
  case unidentified
  /// There is no descriptor or memory to ask the kernel with (errno).
  case exhausted(Int32)
  /// It sent something, which systemd never does.
  case talked
  /// It ended before it was answered.
  case ended
  /// The broker has no answer for it.
  case denied(RPCError)
  /// There was no answer in time.
  case late(Duration)
  /// The answer is none that systemd would take.
  case unusable(bytes: Int)
  /// The broker ends.
  case stopping

  /// Its kind, if it is not the source's own answer.
  var cause: CredentialWithheld.Cause? {
    switch self {
    case .unnamed, .foreignUser, .unknownUnit, .otherUnit, .unidentified, .talked: .foreign
    case .exhausted, .ended, .late, .unusable, .stopping: .undelivered
    case .denied: nil
    }
  }

  /// Whether the client is not the manager.
  var isForeign: Bool { cause == .foreign }

  var reason: String {
    switch self {
    case .unnamed, .foreignUser, .unknownUnit, .otherUnit, .unidentified, .talked, .ended:
      ErrorReason.notPermitted.rawValue
    case .exhausted: ErrorReason.overloaded.rawValue
    case .denied(let error): error.reason?.rawValue ?? "invalid_request"
    case .late: ErrorReason.timedOut.rawValue
    case .unusable: ErrorReason.providerError.rawValue
    case .stopping: ErrorReason.shuttingDown.rawValue
    }
  }

  /// What is wrong.
  var message: String {
    switch self {
    case .unnamed: "the connection has no name as systemd gives it"
    case .foreignUser(let uid): "uid \(uid) asks, and not the service manager"
    case .unknownUnit: "the kernel does not say in which unit the asking process runs"
    case .otherUnit(let found): "the asking process runs in \(found.prefix(256)): the name is forged"
    case .unidentified: "the kernel does not say who asks"
    case .exhausted(let code): "the asking process cannot be identified: \(String(cString: strerror(code)))"
    case .talked: "the asking process sent something, which systemd never does"
    case .ended: "the asking process has ended"
    case .denied(let error): String(error.message.prefix(512))
    case .late(let limit): "there was no answer within \(limit.components.seconds) s"
    case .unusable(let bytes):
      bytes == 0 ? "the token is empty" : "the token has \(bytes) bytes, and systemd takes less than 1 MiB"
    case .stopping: "the broker is stopping"
    }
  }

  /// What to do.
  var hint: String {
    switch self {
    case .unnamed, .talked:
      "Only LoadCredential= of a unit is served here; programs ask at the broker's other socket."
    case .foreignUser: "System units ask the system's broker, and a user's own units the user's."
    case .unknownUnit, .unidentified:
      "The broker must see /proc/PID/cgroup of others: keep ProtectProc=default and PrivateUsers=no in its unit."
    case .exhausted: "Raise LimitNOFILE= of the broker's service, or free memory; then start the unit again."
    case .otherUnit: "See who runs there: it asks for another unit's credential."
    case .ended: "The unit was stopped, or its start took longer than TimeoutStartSec=."
    case .denied(let error): error.hint.map { String($0.prefix(512)) } ?? "See what the broker logged before."
    case .late: "See how the account's refreshes go: `grantctl show ACCOUNT`."
    case .unusable: "Sign in again, or give the provider's tokens fewer claims."
    case .stopping: "Start the unit again."
    }
  }
}
