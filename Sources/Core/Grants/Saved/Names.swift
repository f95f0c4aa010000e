/// The name of an account: 1 to 128 characters of `A-Z a-z 0-9 . _ @ + -`, so that it needs no quoting anywhere.
public struct AccountName: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
  public let rawValue: String

  /// Nil if the text is not a valid name.
  public init?(rawValue: String) {
    guard isName(rawValue, limit: 128) else { return nil }
    self.rawValue = rawValue
  }

  public var description: String { rawValue }
  public static func < (lhs: AccountName, rhs: AccountName) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// The name of a `[provider.NAME]` section: 1 to 64 characters of `A-Z a-z 0-9 . _ @ + -`.
public struct ProviderName: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
  public let rawValue: String

  /// Nil if the text is not a valid name.
  public init?(rawValue: String) {
    guard isName(rawValue, limit: 64) else { return nil }
    self.rawValue = rawValue
  }

  public var description: String { rawValue }
  public static func < (lhs: ProviderName, rhs: ProviderName) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// Identifies a login to its caller: unguessable, but different from the `state` of the authorization request.
public struct LoginID: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  public let rawValue: String

  /// Nil if the text is not a valid name.
  public init?(rawValue: String) {
    guard isName(rawValue, limit: 64) else { return nil }
    self.rawValue = rawValue
  }

  public var description: String { rawValue }
}

private func isName(_ text: String, limit: Int) -> Bool {
  (1...limit).contains(text.utf8.count)
    && text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "@"),
        UInt8(ascii: "+"), UInt8(ascii: "-"):
        true
      default: false
      }
    }
}
