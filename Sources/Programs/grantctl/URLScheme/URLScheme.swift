/// A scheme of an application's own addresses (RFC 3986 §3.1, RFC 8252 §7.1), in lower case.
struct URLScheme: Hashable, Sendable {
  /// Bytes: names of files have it in them.
  private static let longest = 100
  /// Schemes that are everybody's: whoever took their addresses would break the desktop.
  private static let common: Set<String> = [
    "about", "blob", "data", "file", "ftp", "geo", "help", "http", "https", "irc", "ircs", "javascript", "ldap",
    "magnet",
    "mailto", "man", "news", "sftp", "sip", "sms", "ssh", "tel", "trash", "view-source", "webcal", "ws", "wss", "xmpp",
  ]

  let name: String

  /// Nil where it is no scheme, or one of everybody's.
  init?(_ text: String) {
    let name = text.lowercased()
    guard name.utf8.count <= Self.longest, let first = name.utf8.first, Self.isLetter(first),
      name.utf8.allSatisfy({ Self.isLetter($0) || (0x30...0x39).contains($0) || [0x2B, 0x2D, 0x2E].contains($0) }),
      !Self.common.contains(name)
    else { return nil }
    self.name = name
  }

  /// Of an address; nil also where every browser takes it.
  init?(of url: String) {
    guard let colon = url.firstIndex(of: ":") else { return nil }
    self.init(String(url[..<colon]))
  }

  private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) }

  /// The type by which the desktop knows the programs that take its addresses.
  var mimeType: String { "x-scheme-handler/\(name)" }
  /// The file that makes grantctl such a program.
  var desktopFile: String { "grantd-\(name).desktop" }
}
