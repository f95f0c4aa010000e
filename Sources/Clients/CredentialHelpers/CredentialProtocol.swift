/// A protocol by which a program asks a helper program for a credential: bytes in, bytes out. It reads nothing, connects
/// to nothing and knows no clock.
public protocol CredentialProtocol: Sendable {
  /// As in `grantctl helper NAME`.
  static var name: String { get }
  /// The program's names as `argv[0]` that select this protocol.
  static var programs: [String] { get }
  /// Whether a host without an entry of the mapping may be found by the issuer of the broker's providers.
  static var findsIssuers: Bool { get }
  /// Whether the user wrote each argument: the calling program adds none.
  static var isWhollyConfigured: Bool { get }
  /// Whether the program can use an ID token (`--id-token`).
  static var takesIDTokens: Bool { get }

  /// Output before the input, for a protocol in which the helper begins.
  static func greeting(_ invocation: Invocation) -> [UInt8]
  static func input(_ invocation: Invocation) -> InputShape
  init(_ invocation: Invocation, input: [UInt8]) throws(Malformed)

  var request: Request { get }
  /// The answer with a token. Throws where the protocol cannot carry it.
  func answer(_ token: IssuedToken) throws(Malformed) -> Reply
  /// The protocol's own “not found”: the program continues with its next helper.
  static func notFound(_ invocation: Invocation) -> Reply
  /// The protocol's own refusal, with one line for the user if the program shows it.
  static func refusal(_ problem: Problem, _ invocation: Invocation) -> Reply
}

extension CredentialProtocol {
  public static var programs: [String] { [] }
  public static var findsIssuers: Bool { true }
  public static var isWhollyConfigured: Bool { false }
  public static var takesIDTokens: Bool { false }
  public static func greeting(_ invocation: Invocation) -> [UInt8] { [] }
  public static func notFound(_ invocation: Invocation) -> Reply { Reply(status: 1) }
  public static func refusal(_ problem: Problem, _ invocation: Invocation) -> Reply {
    Reply(err: problem.line, status: 1)
  }
}

/// How a helper was started.
public struct Invocation: Sendable, Equatable {
  /// Without the name of the program, and without the options of grantctl.
  public var arguments: [String]
  public var environment: [String: String]
  /// `--account`.
  public var account: String?

  public init(arguments: [String], environment: [String: String] = [:], account: String? = nil) {
    self.arguments = arguments
    self.environment = environment
    self.account = account
  }
}

/// The end of a protocol's input.
public enum InputShape: Sendable, Equatable {
  case none
  /// With a line.
  case line
  /// With an empty line, or with the input.
  case blankLine
  case everything

  /// Bytes of input that any program needs; more is refused.
  public static let limit = 256 * 1024

  public func isComplete(_ input: [UInt8]) -> Bool {
    switch self {
    case .none: true
    case .line: input.contains(0x0A)
    case .blankLine: input.first == 0x0A || Self.hasBlankLine(input)
    case .everything: false
    }
  }

  private static func hasBlankLine(_ input: [UInt8]) -> Bool {
    var previous: UInt8 = 0
    for byte in input where byte != 0x0D {
      if byte == 0x0A, previous == 0x0A { return true }
      previous = byte
    }
    return false
  }
}

public enum Request: Sendable, Equatable {
  /// No token is needed for this.
  case answered(Reply)
  case token(HelperTokenRequest)
  /// No token is needed: the answer where the place is an account's, and the problem where it is not.
  case ours(HelperTokenRequest, Reply, otherwise: Problem)
  /// The server refused this secret. It counts where it is the token that the account has now.
  case rejected(HelperTokenRequest, secret: String)
}

/// Which token a program asks for.
public struct HelperTokenRequest: Sendable, Equatable {
  /// The server that the token is for. Nil: the account is named.
  public var place: ServerLocation?
  /// The user name that the program requests, or that was in a URL.
  public var username: String?
  /// The account that the program's configuration names; without one the mapping does.
  public var account: String?
  /// The place has no scheme, and the program has http in mind as well as https.
  public var mayBeHTTP: Bool

  public init(place: ServerLocation?, username: String? = nil, account: String? = nil, mayBeHTTP: Bool = false) {
    self.place = place
    self.username = username
    self.account = account
    self.mayBeHTTP = mayBeHTTP
  }

  /// Whether the token could be read on the way.
  public var isReadable: Bool { place.map { $0.isReadable || (mayBeHTTP && !$0.host.isLoopback) } ?? false }
}

/// A token, and the mapping's data for its use.
public struct IssuedToken: Sendable, Equatable {
  public var text: String
  /// In Unix seconds, where known.
  public var expiresAt: Int64?
  /// The user name for it, if the mapping or the program gave one.
  public var username: String?
  /// `authtype` of the mapping: the scheme `Bearer` (RFC 6750 §2.1) instead of Basic.
  public var isBearer: Bool
  /// The path that the mapping limits the token to.
  public var path: String?

  public init(
    text: String, expiresAt: Int64? = nil, username: String? = nil, isBearer: Bool = false, path: String? = nil
  ) {
    self.path = path
    self.text = text
    self.expiresAt = expiresAt
    self.username = username
    self.isBearer = isBearer
  }
}

/// A helper's output, and its exit status.
public struct Reply: Sendable, Equatable {
  public var out: [UInt8]
  /// One line for standard error.
  public var err: String?
  public var status: Int32

  public init(out: [UInt8] = [], err: String? = nil, status: Int32 = 0) {
    self.out = out
    self.err = err
    self.status = status
  }

  public init(text: String, err: String? = nil, status: Int32 = 0) {
    self.init(out: Array(text.utf8), err: err, status: status)
  }
}

/// Input that does not follow the protocol, in one line.
public struct Malformed: Error, Equatable, CustomStringConvertible {
  public var description: String

  public init(_ description: String) {
    self.description = description
  }
}

/// Why there is no token although the account is known, or could be.
public struct Problem: Error, Sendable, Equatable {
  /// What happened and what to do next, on one line.
  public var line: String
  /// The account is one of the broker's: another helper cannot have it.
  public var isOurs: Bool

  public init(_ line: String, isOurs: Bool = false) {
    self.line = line
    self.isOurs = isOurs
  }
}
