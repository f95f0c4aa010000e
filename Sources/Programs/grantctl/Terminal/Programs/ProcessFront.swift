import BrokerSocket
import Glibc
import Platform
import Synchronization

/// The front that executed this program, if one did.
enum ProcessFront {
  private static let left = Mutex<Int32?>(nil)

  /// Before there are threads.
  static func begin() {
    // A closed reader is an error of write(2).
    signal(SIGPIPE, SIG_IGN)
    guard let taken = LeftConnection.adopt() else { return }
    left.withLock { $0 = taken }
  }

  @Sendable static func connection() -> Int32? {
    left.withLock { left in
      defer { left = nil }
      return left
    }
  }

  /// The path that people and desktops call it by: the front's, where this program is installed behind one.
  static var path: String? {
    Environment.ownProgram.map { path(of: $0) { access($0, X_OK) == 0 } }
  }

  static func path(of own: String, isProgram: (String) -> Bool) -> String {
    let place = "/lib/grantd/grantctl"
    guard own.hasSuffix(place) else { return own }
    let front = own.dropLast(place.count) + "/bin/grantctl"
    return isProgram(String(front)) ? String(front) : own
  }
}
