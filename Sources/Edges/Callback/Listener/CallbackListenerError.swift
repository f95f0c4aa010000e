/// Why the redirection endpoint cannot be had. The description says what to do.
public enum CallbackListenerError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Another program listens on the configured port; `owner` is its user, if that is another one than this program's.
  case portTaken(port: Int, address: String, owner: UInt32? = nil)
  /// The kernel refuses the port to this process.
  case portNotPermitted(port: Int, address: String)
  /// No port is free on all addresses at once.
  case noCommonPort(attempts: Int)
  /// No address could be had.
  case noAddress(detail: String)
  /// Neither IPv4 nor IPv6 is configured.
  case noAddressFamily
  /// Not 0…65535.
  case invalidPort(Int)
  /// Started before, or stopped.
  case notIdle

  public var description: String {
    switch self {
    case .portTaken(let port, let address, let owner):
      "the callback port \(port) is taken on \(address)\(owner.map { " by a program of uid \($0)" } ?? ""): stop the program that has it (`ss -ltnp 'sport = :\(port)'` "
        + "names it), or configure another port here and at the provider"
    case .portNotPermitted(let port, let address):
      "the callback port \(port) may not be used on \(address): configure a port from 1024 up, or 0 for any"
    case .noCommonPort(let attempts):
      "no callback port was free on both 127.0.0.1 and ::1 in \(attempts) attempts: configure a fixed port, "
        + "or turn one address family off"
    case .noAddress(let detail):
      "no loopback address can be listened on (\(detail)): bring the loopback interface up (`ip link set lo up`)"
    case .noAddressFamily:
      "the callback endpoint has neither IPv4 nor IPv6: turn at least one on"
    case .invalidPort(let port):
      "the callback port \(port) does not exist: configure one from 1 to 65535, or 0 for any"
    case .notIdle:
      "the callback endpoint was started or stopped before: make a new one"
    }
  }
}
