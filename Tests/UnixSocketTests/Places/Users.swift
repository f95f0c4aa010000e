import BrokerAPI
import CLinux
import Glibc
import Principals
import Synchronization
import TestSupport

@testable import Callers
@testable import UnixSocket

/// Says whose connections they are, instead of the kernel.
final class Users: Sendable {
  struct State {
    var uid: UInt32 = 0
    var connected = 0
    var identified = 0
    var failure: Peer.Failure?
    var sendBuffer: Int32?
    /// The unit of the system that the next clients run in; nil: as the kernel says.
    var unit: String?
  }
  let state = Mutex(State())

  var system: SystemCalls {
    SystemCalls(
      accept: { [self] listener, address, length in
        let socket = clinux_accept(listener, address, length)
        if socket >= 0, var size = state.withLock({ $0.sendBuffer }) {
          setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout.size(ofValue: size)))
        }
        return socket
      },
      credentials: { [self] socket in
        var credentials = Peer.credentials(of: socket)
        state.withLock { state in
          credentials?.uid = state.uid
          state.connected += 1
        }
        return credentials
      },
      caller: { [self] socket, credentials, groups throws(Peer.Failure) in
        let (failure, unit) = state.withLock { state in
          state.identified += 1
          return (state.failure, state.unit)
        }
        if let failure { throw failure }
        var caller = try Peer(of: socket, credentials, groups: groups).caller
        if let unit {
          caller.unit = unit
          caller.holder = .unit(unit, user: caller.uid)
        }
        return caller
      })
  }

  /// When it returns, the server has accepted it as this user's.
  func client(_ uid: UInt32, _ served: Served) async throws -> RawClient {
    let before = state.withLock { state in
      state.uid = uid
      return state.connected
    }
    let client = try served.client()
    try await eventually("it is accepted") { self.state.withLock { $0.connected } == before + 1 }
    return client
  }
}
