import CLinux
import Glibc

/// What the socket's server asks the kernel. Tests answer instead.
struct SystemCalls: Sendable {
  /// accept4(2) of a listener, with the peer's address and its length.
  var accept: @Sendable (Int32, UnsafeMutablePointer<sockaddr_un>, UnsafeMutablePointer<UInt32>) -> Int32 = {
    clinux_accept($0, $1, $2)
  }
  /// Whether nobody can send a descriptor to connections that a listener gets from now on.
  var refuseDescriptors: @Sendable (Int32) -> Bool = { clinux_refuse_descriptors($0) == 0 }
}
