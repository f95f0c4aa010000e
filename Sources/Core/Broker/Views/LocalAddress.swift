/// Where HTTP is served (`[metrics] listen`, `[http]`): on this machine only.
public enum LocalAddress: Sendable, Equatable {
  /// A loopback literal, without brackets, and a TCP port; 0: the kernel chooses.
  case loopback(host: String, port: Int)
  /// A Unix socket, as an absolute path.
  case unix(path: String)

  /// Why a text is none: a sentence that says what to write.
  public enum Failure: Error, Equatable {
    case noAddress
    case noPort
    /// Others on the network could read it.
    case notLoopback(host: String)
    case pathTooLong
  }

  /// The content of a Unix socket's address (unix(7)).
  static let longestPath = 107

  /// - Parameter text: `127.0.0.1:9464`, `[::1]:9464`, or an absolute path.
  public init(_ text: String) throws(Failure) {
    if text.hasPrefix("/") {
      guard text.utf8.count <= Self.longestPath else { throw .pathTooLong }
      self = .unix(path: text)
      return
    }
    guard let colon = text.lastIndex(of: ":") else { throw .noAddress }
    let host = text[..<colon]
    let digits = text[text.index(after: colon)...]
    guard !host.isEmpty else { throw .notLoopback(host: "every address") }
    guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(digits), port <= 65535 else {
      throw .noPort
    }
    switch host {
    case "127.0.0.1", "localhost": self = .loopback(host: "127.0.0.1", port: port)
    case "[::1]": self = .loopback(host: "::1", port: port)
    default: throw .notLoopback(host: String(host))
    }
  }
}
