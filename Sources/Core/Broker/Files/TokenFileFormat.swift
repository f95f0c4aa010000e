import BrokerAPI
import FoundationEssentials

/// The content of a token file.
public enum TokenFileFormat: Sendable, Equatable {
  /// The token without a newline: many programs send the content unchanged.
  case token
  /// The account's ID token, without a newline, such as for `AWS_WEB_IDENTITY_TOKEN_FILE`.
  case idToken
  /// A header field's line (RFC 6750 §2.1).
  case header
  /// A shell's assignment, which is one for `EnvironmentFile=` (systemd.exec(5)) as well.
  case environment(variable: String)
  /// Options for `curl --config`.
  case curl(user: String?)
  /// An object, with the names of RFC 6749 §5.1 and `expiry` (RFC 3339), as rclone and others keep it.
  case json
  case template(TokenTemplate)

  /// The token's data in a token file.
  public struct Content: Sendable, Equatable {
    public var token: String
    /// `Bearer`.
    public var type: String
    /// In Unix seconds; nil: the provider does not say.
    public var expiresAt: Int64?
    public var scopes: [String]
    public var account: String

    public init(token: String, type: String, expiresAt: Int64?, scopes: [String], account: String) {
      self.token = token
      self.type = type
      self.expiresAt = expiresAt
      self.scopes = scopes
      self.account = account
    }

    /// As RFC 3339 has it, in UTC.
    var expiry: String? {
      expiresAt.map { Date(timeIntervalSince1970: Double($0)).formatted(.iso8601) }
    }
  }

  /// Nil: the token has characters that no token has (RFC 6750 §2.1 allows fewer), and could be read as something else.
  public func text(of content: Content) -> String? {
    let isPlain = content.token.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    guard isPlain, !content.token.isEmpty else { return nil }
    return switch self {
    case .token, .idToken: content.token
    case .header: "Authorization: \(content.type) \(content.token)\n"
    case .environment(let variable): "\(variable)=\(Self.assigned(content.token))\n"
    case .curl(let user):
      "oauth2-bearer = \(Self.quoted(content.token))\n" + (user.map { "user = \(Self.quoted($0 + ":"))\n" } ?? "")
    case .json: Self.object(content).text() + "\n"
    case .template(let template): template.text(of: content)
    }
  }

  /// The value in a file of another program.
  func value(of content: Content) -> JSON? {
    if self == .json { return Self.object(content) }
    return text(of: content).map { .string($0.hasSuffix("\n") ? String($0.dropLast()) : $0) }
  }

  private static func object(_ content: Content) -> JSON {
    var members: [JSON.Member] = [
      .init(name: "access_token", value: .string(content.token)),
      .init(name: "token_type", value: .string(content.type)),
    ]
    if let end = content.expiresAt, let expiry = content.expiry {
      members.append(.init(name: "expiry", value: .string(expiry)))
      members.append(.init(name: "expires_at", value: .integer(end)))
    }
    if !content.scopes.isEmpty {
      members.append(.init(name: "scope", value: .string(content.scopes.joined(separator: " "))))
    }
    members.append(.init(name: "account", value: .string(content.account)))
    return .object(members)
  }

  /// As a shell and systemd both read it.
  private static func assigned(_ token: String) -> String {
    let isSafe = token.utf8.allSatisfy {
      (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
        || "-._~+/=".utf8.contains($0)
    }
    guard !isSafe else { return token }
    return "\"" + token.map { "\"\\$`".contains($0) ? "\\\($0)" : "\($0)" }.joined() + "\""
  }

  /// As curl's configuration files have it.
  private static func quoted(_ text: String) -> String {
    "\"" + text.map { "\"\\".contains($0) ? "\\\($0)" : "\($0)" }.joined() + "\""
  }
}

/// A text with placeholders for the token's data: `{{access_token}}`, and `{{access_token|json}}` within a JSON text.
public struct TokenTemplate: Sendable, Equatable {
  public enum Name: String, CaseIterable, Sendable {
    case accessToken = "access_token"
    case tokenType = "token_type"
    case expiresAt = "expires_at"
    case expiry
    case scope
    case account
  }

  private enum Part: Sendable, Equatable {
    case text(String)
    case value(Name, isJSON: Bool)
  }

  /// What is wrong with a template, for people.
  public struct Fault: Error, Equatable {
    public var message: String
  }

  private let parts: [Part]

  public init(_ text: String) throws(Fault) {
    var parts: [Part] = []
    var rest = text[...]
    while let start = rest.firstRange(of: "{{") {
      guard let end = rest[start.upperBound...].firstRange(of: "}}") else {
        throw Fault(message: "“{{” has no “}}”")
      }
      parts.append(.text(String(rest[..<start.lowerBound])))
      let words = rest[start.upperBound..<end.lowerBound].split(separator: "|", omittingEmptySubsequences: false)
        .map { $0.trimmingPrefix(while: \.isWhitespace).reversed().trimmingPrefix(while: \.isWhitespace).reversed() }
        .map { String($0) }
      guard let name = words.first.flatMap({ Name(rawValue: $0) }) else {
        let known = Name.allCases.map(\.rawValue).joined(separator: ", ")
        throw Fault(message: "there is no “\(words.first ?? "")”; there are \(known)")
      }
      guard words.count == 1 || words.dropFirst() == ["json"] else {
        throw Fault(message: "behind “|” only json is known")
      }
      parts.append(.value(name, isJSON: words.count == 2))
      rest = rest[end.upperBound...]
    }
    parts.append(.text(String(rest)))
    let hasToken = parts.contains { if case .value(.accessToken, _) = $0 { true } else { false } }
    guard hasToken else { throw Fault(message: "it has no {{access_token}}") }
    self.parts = parts
  }

  func text(of content: TokenFileFormat.Content) -> String {
    var text = ""
    for part in parts {
      switch part {
      case .text(let fixed): text += fixed
      case .value(let name, let isJSON):
        let value = Self.value(name, content)
        // Without the quotation marks, which the template has.
        text += isJSON ? String(JSON.string(value).text().dropFirst().dropLast()) : value
      }
    }
    return text
  }

  private static func value(_ name: Name, _ content: TokenFileFormat.Content) -> String {
    switch name {
    case .accessToken: content.token
    case .tokenType: content.type
    case .expiresAt: content.expiresAt.map { "\($0)" } ?? ""
    case .expiry: content.expiry ?? ""
    case .scope: content.scopes.joined(separator: " ")
    case .account: content.account
    }
  }
}
