public import BrokerAPI

/// A unit that is being started asks for one of its credentials: `LoadCredential=ID:…/credentials.sock` (systemd.exec(5)).
public struct CredentialRequest: Sendable, Hashable {
  /// The unit, by the name that its control group has too: the system's in a system instance, else the user's own.
  public var unit: String
  /// The name that the unit gave the credential.
  public var id: String
  /// The service manager's child that asks, as the kernel says: of the manager's user, in the unit's control group.
  public var caller: Caller

  public init(unit: String, id: String, caller: Caller) {
    self.unit = unit
    self.id = id
    self.caller = caller
  }

  public var principal: Principal { .unit(unit, manager: caller) }

  /// Whether systemd takes it for the name of a credential: a file's name of 1 to 255 printable ASCII characters
  /// without `:`.
  public static func isValidID(_ text: String) -> Bool {
    let bytes = text.utf8
    return (1...255).contains(bytes.count) && text != "." && text != ".."
      && bytes.allSatisfy { (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":") }
  }
}

/// A connection got no credential without the source's knowledge: the source was not asked, or its answer was not
/// delivered.
public struct CredentialWithheld: Sendable, Hashable {
  public enum Cause: Sendable, Hashable {
    /// The client is not the manager, or does not ask as the manager does.
    case foreign
    /// The manager asked, and did not get an answer, or got none that it takes.
    case undelivered
  }

  public var cause: Cause
  /// The unit and the credential's id that the connection names, which proves nothing; nil: none as systemd names them.
  public var unit: String?
  public var id: String?
  /// Nil: the kernel does not say.
  public var caller: Caller?
  /// For people.
  public var message: String

  public init(cause: Cause, unit: String? = nil, id: String? = nil, caller: Caller? = nil, message: String) {
    self.cause = cause
    self.unit = unit
    self.id = id
    self.caller = caller
    self.message = message
  }
}

/// The content of a credential, or the reason for none. Called only for verified requests; must end on its own.
public typealias CredentialSource = @Sendable (CredentialRequest) async -> Result<SecretText, RPCError>
