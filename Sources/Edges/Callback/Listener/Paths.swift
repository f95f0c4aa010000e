import Synchronization

extension CallbackListener {
  /// The paths that a reverse proxy passes on from the web, under the public name (RFC 8252 §7.2).
  public struct PublicSite: Sendable, Equatable {
    /// `https://broker.example.com`: in lower case, with a port where it is not the scheme's own.
    public var origin: String
    /// The served paths, compared exactly; `/*` at an end stands for one segment.
    public var paths: [String]

    public init(origin: String, paths: [String]) {
      self.origin = origin
      self.paths = paths
    }
  }
}

/// The paths that are served, and under which names. Read on the loop, replaced from anywhere.
final class Paths: Sendable {
  /// One of the names, as the browser used it.
  struct Site: Equatable {
    /// As browsers write it in `Origin` (RFC 6454 §6.2).
    var origin: String
    var paths: Set<String>
    /// It is this machine's, and no name that a proxy passes on.
    var isLoopback = false

    func contains(_ path: String) -> Bool { Paths.has(path, paths) }
  }

  private struct ServedPaths {
    var own: Set<String>
    var publicHost: String?
    var publicSite: Site?
  }

  private static let loopbackNames = ["127.0.0.1", "[::1]", "localhost"]

  private let served: Mutex<ServedPaths>

  init(_ own: [String], publicSite: CallbackListener.PublicSite? = nil) {
    served = Mutex(Self.served(own, publicSite))
  }

  func replace(by own: [String], publicSite: CallbackListener.PublicSite?) {
    let new = Self.served(own, publicSite)
    served.withLock { $0 = new }
  }

  /// Whether it is served under any name.
  func contains(_ path: String) -> Bool {
    served.withLock { Self.has(path, $0.own) || $0.publicSite?.contains(path) == true }
  }

  /// The paths for the name of a `Host` header (RFC 9110 §7.2). Nil: a foreign name, such as `evil.example` resolving
  /// to 127.0.0.1 (DNS rebinding).
  ///
  /// - Parameter port: the port of the request.
  func site(of host: String, port: Int) -> Site? {
    let name = host.lowercased()
    return served.withLock { served in
      // Browsers leave the scheme's own port out.
      if Self.loopbackNames.contains(where: { name == "\($0):\(port)" || (port == 80 && name == $0) }) {
        return Site(origin: "http://\(host)", paths: served.own, isLoopback: true)
      }
      return name == served.publicHost ? served.publicSite : nil
    }
  }

  /// By bytes, as the rest of the address is compared.
  private static func has(_ path: String, _ paths: Set<String>) -> Bool {
    if paths.contains(path) { return true }
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), path.utf8.index(after: slash) < path.endIndex else {
      return false
    }
    return paths.contains("\(path[...slash])*")
  }

  private static func served(_ own: [String], _ site: CallbackListener.PublicSite?) -> ServedPaths {
    ServedPaths(
      own: Set(own), publicHost: site.map { String($0.origin.drop { $0 != "/" }.drop { $0 == "/" }) },
      publicSite: site.map { Site(origin: $0.origin, paths: Set($0.paths)) })
  }
}
