/// A copy that `store.backup` made comes back, on this machine or another one: begin, send the parts, look, apply.
public enum StoreRestore: RPCMethod {
  public static let name = "store.restore"
  public static let access = Access.manage
  public static let summary = "Begins to take back a copy; it is kept for this connection until it is applied."
  public static let errors: [ErrorReason] = []

  public struct Params: Codable, Sendable, Equatable {
    public var size: Int

    public init(size: Int) { self.size = size }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var restore_id: String

    public init(restore_id: String) { self.restore_id = restore_id }
  }

  public static let paramDocs = ["size": "The bytes of the copy; at most 256 MiB."]
  public static let resultDocs = [
    "restore_id": "Names it in the following calls, only on this connection, for 5 minutes after the last of them."
  ]
  public static let example = MethodExample(params: ["size": 74_210], result: ["restore_id": "m1Qk0LSbQm7Rz0h3YpXHQw"])
}

public enum StoreRestorePart: RPCMethod {
  public static let name = "store.restore_part"
  public static let access = Access.manage
  public static let summary = "Takes the next part of a copy."
  public static let errors: [ErrorReason] = []

  public struct Params: Codable, Sendable, Equatable {
    public var restore_id: String
    public var offset: Int
    public var data: String

    public init(restore_id: String, offset: Int, data: String) {
      self.restore_id = restore_id
      self.offset = offset
      self.data = data
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var received: Int

    public init(received: Int) { self.received = received }
  }

  public static let paramDocs = [
    "restore_id": "As `store.restore` says it.",
    "offset": "The part's offset: the end of the previous one.",
    "data": "Up to 128 KiB, in base64.",
  ]
  public static let resultDocs = ["received": "How many bytes have come so far."]
  public static let example = MethodExample(
    params: ["restore_id": "m1Qk0LSbQm7Rz0h3YpXHQw", "offset": 0, "data": "Z3JhbnRkLWJhY2t1cAo="],
    result: ["received": 14])
}

public enum StoreRestoreLook: RPCMethod {
  public static let name = "store.restore_look"
  public static let access = Access.manage
  public static let summary = "Opens a completely received copy, and returns its contents; changes nothing."
  public static let errors: [ErrorReason] = [.invalidBackup, .storeFailure]

  public struct Params: Codable, Sendable, Equatable {
    public var restore_id: String
    public var passphrase: SecretText?
    public var key: SecretText?

    public init(restore_id: String, passphrase: SecretText? = nil, key: SecretText? = nil) {
      self.restore_id = restore_id
      self.passphrase = passphrase
      self.key = key
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var host: String
    public var made_at: Int64
    public var version: String
    public var accounts: Int
    public var known: Int
    public var older: [String]?

    public init(
      host: String, made_at: Int64, version: String, accounts: Int, known: Int, older: [String]? = nil
    ) {
      self.older = older
      self.host = host
      self.made_at = made_at
      self.version = version
      self.accounts = accounts
      self.known = known
    }
  }

  public static let paramDocs = [
    "restore_id": "As `store.restore` says it.",
    "passphrase": "The passphrase of the copy. Either this or `key`.",
    "key": "The contents of the key file that it was made with, in base64.",
  ]
  public static let resultDocs = [
    "host": "The name of the machine that it was made on.",
    "made_at": "When, in Unix seconds.",
    "version": "The version of the grantd that made it.",
    "accounts": "How many accounts are in it.",
    "known": "How many of those are accounts here too.",
    "older": "Those of them whose refresh token here is newer; absent: none.",
  ]
  public static let example = MethodExample(
    params: ["restore_id": "m1Qk0LSbQm7Rz0h3YpXHQw", "passphrase": "correct horse battery staple"],
    result: [
      "host": "old.example", "made_at": 1_767_225_600, "version": .string(OpenRPC.contractVersion), "accounts": 13,
      "known": 1,
    ])
}

public enum StoreRestoreApply: RPCMethod {
  public static let name = "store.restore_apply"
  public static let access = Access.manage
  public static let summary =
    "Makes the accounts of a copy accounts of this broker, all at once; they are on disk when it answers."
  public static let errors: [ErrorReason] = [.storeFailure]

  public struct Params: Codable, Sendable, Equatable {
    public var restore_id: String
    public var moved: Bool
    public var replace: Bool?
    public var older: Bool?

    public init(restore_id: String, moved: Bool, replace: Bool? = nil, older: Bool? = nil) {
      self.older = older
      self.restore_id = restore_id
      self.moved = moved
      self.replace = replace
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var restored: [String]
    public var replaced: [String]
    public var kept: [String]
    public var left_out: [LeftOut]
    public var warnings: [String]

    public init(
      restored: [String] = [], replaced: [String] = [], kept: [String] = [], left_out: [LeftOut] = [],
      warnings: [String] = []
    ) {
      self.restored = restored
      self.replaced = replaced
      self.kept = kept
      self.left_out = left_out
      self.warnings = warnings
    }
  }

  /// An account that could not be restored.
  public struct LeftOut: Codable, Sendable, Equatable, Documented {
    public var account: String
    public var why: String

    public init(account: String, why: String) {
      self.account = account
      self.why = why
    }

    public static let docs = ["account": "Its name in the copy.", "why": "Why, for people."]
  }

  public static let paramDocs = [
    "restore_id": "As `store.restore` says it.",
    "moved":
      "Must be true: that no other broker uses these grants any more. Two that refresh one grant end it: each makes "
      + "the other's refresh token an old one.",
    "replace": "Even if this broker has an account of that name. Default: that one is kept.",
    "older": "With `replace`: also accounts whose refresh token here is newer. Default: they are left out.",
  ]
  public static let resultDocs = [
    "restored": "Accounts that are new here.",
    "replaced": "Existing accounts that were replaced by those of the copy.",
    "kept": "Accounts that are as they were before.",
    "left_out": "Accounts of the copy that could not be restored.",
    "warnings": "Warnings for the user, such as a provider that is not configured here.",
  ]
  public static let example = MethodExample(
    params: ["restore_id": "m1Qk0LSbQm7Rz0h3YpXHQw", "moved": true],
    result: [
      "restored": ["work", "private"], "replaced": [], "kept": ["cameras"],
      "left_out": [["account": "robot", "why": "the configuration declares such accounts"]], "warnings": [],
    ])
}
