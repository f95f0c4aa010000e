public import BrokerAPI
public import Grants

/// A file that is given an account's token, and each new one (`[[file]]`).
public struct TokenFile: Sendable, Equatable {
  /// Which file, and what of it.
  public struct Place: Sendable, Hashable {
    /// Absolute.
    public var path: String
    /// What of a file of another program; nil: the file is the broker's own, and all of it.
    public var member: Member?

    public init(path: String, member: Member? = nil) {
      self.path = path
      self.member = member
    }
  }

  /// A value in a file of another program.
  public enum Member: Sendable, Hashable {
    /// By its names from the outermost object inwards (RFC 6901).
    case json([String])
    case ini(section: String, key: String)
  }

  /// Whose the token is in the file, beside the broker's own user.
  public enum Reader: Sendable, Hashable {
    case user(UInt32, gid: UInt32, groups: [UInt32])
    case group(UInt32)
  }

  public var place: Place
  /// The path as configured, for messages.
  public var name: String
  public var account: AccountName
  public var format: TokenFileFormat
  public var reader: Reader
  /// The mode of the file, for the broker's own user and group; nil: 0600, and unchanged for another program's file.
  public var mode: UInt32?
  /// The requested scopes of the token; nil: all granted ones.
  public var scopes: [String]?
  /// The resource that the token is for (RFC 8707); nil: the account's own.
  public var resource: String?
  /// The audience that the token is for; nil: the account's own.
  public var audience: String?
  /// The minimum remaining lifetime while the token is in the file.
  public var minimumTTL: Duration

  public var kind: TokenKind { format == .idToken ? .idToken : .accessToken }

  /// More than the 50 s for which Kubernetes clients keep a read token.
  public static let standardTTL = Duration.seconds(60)

  public init(
    place: Place, name: String, account: AccountName, format: TokenFileFormat = .token, reader: Reader,
    mode: UInt32? = nil, scopes: [String]? = nil, resource: String? = nil, audience: String? = nil,
    minimumTTL: Duration = standardTTL
  ) {
    self.audience = audience
    self.place = place
    self.name = name
    self.account = account
    self.format = format
    self.reader = reader
    self.mode = mode
    self.scopes = scopes
    self.resource = resource
    self.minimumTTL = minimumTTL
  }
}

/// Where token files are written. Its functions return when it is done, however long a disk takes; others are not held up.
public protocol TokenFileDisk: Sendable {
  /// Puts the content in place as a whole. False: nothing changed.
  func write(_ content: [UInt8], to file: TokenFile) async -> Result<Bool, TokenFileFailure>
  /// The paths of files that were written here and have changed since, whether this process or another one changed them.
  /// For one reader.
  var changes: AsyncStream<[String]> { get }
  /// The reader with the present groups of its user; a user that no longer exists has none. May ask a name service.
  func current(_ reader: TokenFile.Reader) async -> TokenFile.Reader
  /// Removes the written content. Nil even if there is none.
  func remove(_ place: TokenFile.Place) async -> TokenFileFailure?
}

/// Why a file could not be written.
public struct TokenFileFailure: Error, Sendable, Equatable {
  public var message: String
  /// The user's next step.
  public var hint: String

  public init(_ message: String, hint: String) {
    self.message = message
    self.hint = hint
  }
}
