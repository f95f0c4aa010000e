/// Which host is which account: the entries of one or more files, those of the first file before those of the next.
public struct Mapping: Sendable, Equatable {
  public struct Entry: Sendable, Equatable {
    public var host: HostName
    /// `*.example.com`: each host below, and not the host itself.
    public var isWildcard = false
    /// Nil: the port of the scheme.
    public var port: Int?
    /// Only below this path; it begins with a slash.
    public var path: String?
    public var account: String
    /// The user name that the server wants beside the token.
    public var username: String?
    public var scopes: [String] = []
    public var resource: String?
    /// Only for these protocols; empty: all.
    public var helpers: [String] = []
    public var isBearer = false
    public var allowsInsecureHTTP = false

    public init(host: HostName, account: String) {
      self.host = host
      self.account = account
    }
  }

  public enum Choice: Sendable, Equatable {
    case entry(Entry)
    /// No entry is about this host.
    case nobody
    /// Entries of different accounts are about it alike.
    case ambiguous([String])
    /// The token would travel readable.
    case insecure(Entry)
  }

  /// By file, the user's first.
  public var files: [[Entry]]

  public init(files: [[Entry]]) {
    self.files = files
  }

  /// The most specific entry of the first file that has one: a host before a wildcard, a longer path before a shorter, a
  /// list of helpers before none, the account that is named as the user name before others.
  public func choose(_ request: HelperTokenRequest, for helper: String) -> Choice {
    guard let place = request.place else { return .nobody }
    for entries in files {
      let matching = entries.filter { $0.matches(place, helper) }
      guard let best = matching.map(\.weight).max(by: Entry.isLess) else { continue }
      var candidates = matching.filter { $0.weight == best }
      let named = request.username ?? place.username
      let chosen = candidates.filter { $0.account == named || ($0.username != nil && $0.username == named) }
      if !chosen.isEmpty { candidates = chosen }
      let accounts = Self.unique(candidates.map(\.account))
      guard accounts.count == 1 else { return .ambiguous(accounts) }
      let entry = candidates[0]
      return request.isReadable && !entry.allowsInsecureHTTP ? .insecure(entry) : .entry(entry)
    }
    return .nobody
  }

  static func unique(_ names: [String]) -> [String] {
    var seen: [String] = []
    for name in names where !seen.contains(name) { seen.append(name) }
    return seen
  }

  /// The lines to write for a host.
  public static func lines(for place: ServerLocation, account: String) -> String {
    "[[host]] name = \"\(place.name)\" account = \"\(account)\""
  }
}

extension Mapping.Entry {
  fileprivate var weight: [Int] {
    // The longer wildcard is the more specific one.
    [isWildcard ? 0 : 1, isWildcard ? host.description.utf8.count : 0, path?.utf8.count ?? 0, helpers.isEmpty ? 0 : 1]
  }

  fileprivate static func isLess(_ one: [Int], _ other: [Int]) -> Bool { one.lexicographicallyPrecedes(other) }

  func matches(_ place: ServerLocation, _ helper: String) -> Bool {
    guard helpers.isEmpty || helpers.contains(helper) else { return false }
    guard isWildcard ? place.host.isBelow(host) : place.host == host else { return false }
    if let port {
      guard place.effectivePort == port else { return false }
    } else {
      guard place.port == nil || place.effectivePort == (place.scheme == "http" ? 80 : 443) else { return false }
    }
    guard let path else { return true }
    return Self.contains(path, place.path)
  }

  private static let slash = UInt8(ascii: "/")

  /// Whole segments, by bytes: `/team` has `/team/x` and not `/teams`.
  private static func contains(_ prefix: String, _ path: String) -> Bool {
    let path = path.utf8.first == slash ? Array(path.utf8) : [slash] + path.utf8
    guard !isAmbiguous(path: path) else { return false }
    let prefix = prefix.utf8.last == slash ? Array(prefix.utf8.dropLast()) : Array(prefix.utf8)
    return path.starts(with: prefix) && (path.count == prefix.count || path[prefix.count] == slash)
  }

  static func isAmbiguous(path: some Collection<UInt8>) -> Bool {
    Array(path).split(separator: slash).contains { isAmbiguous(segment: $0) }
  }

  /// Servers treat such a segment differently: it could leave the path. `..;x` is `..` to some.
  private static func isAmbiguous(segment: ArraySlice<UInt8>) -> Bool {
    let decoded = Percent.decoded(segment)
    let name = decoded.prefix { $0 != UInt8(ascii: ";") }
    return decoded.contains(slash) || decoded.contains(UInt8(ascii: "\\")) || name == [UInt8(ascii: ".")]
      || name == [UInt8(ascii: "."), UInt8(ascii: ".")]
  }
}
