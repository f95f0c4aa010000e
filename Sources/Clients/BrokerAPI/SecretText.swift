/// A secret in a method's parameters. It is a plain string on the wire and cannot print: interpolation, `dump`, a
/// debugger's summary and `Mirror` all show `‹redacted›`.
public struct SecretText: Codable, Sendable, Equatable {
  private let text: String

  public init(_ text: String) {
    self.text = text
  }

  public init(from decoder: any Decoder) throws {
    text = try decoder.singleValueContainer().decode(String.self)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(text)
  }

  /// The secret itself, for the wire. Each use must have a reason.
  public var exposed: String { text }

  public var isEmpty: Bool { text.isEmpty }
}

extension SecretText: Redacted {}
