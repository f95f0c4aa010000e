/// A copy of all grants for elsewhere. It comes in parts, since a line is bounded.
public enum StoreBackup: RPCMethod {
  public static let name = "store.backup"
  public static let access = Access.manage
  public static let summary =
    "Makes an encrypted copy of all accounts, and keeps it for this connection until it is fetched; "
    + "the caller must be allowed to use each account's token too."
  public static let errors: [ErrorReason] = [.storeFailure]

  public struct Params: Codable, Sendable, Equatable {
    public var passphrase: SecretText?
    public var key: SecretText?

    public init(passphrase: SecretText? = nil, key: SecretText? = nil) {
      self.passphrase = passphrase
      self.key = key
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var backup_id: String
    public var size: Int
    public var accounts: Int
    public var left_out: [String]?

    public init(backup_id: String, size: Int, accounts: Int, left_out: [String]? = nil) {
      self.backup_id = backup_id
      self.size = size
      self.accounts = accounts
      self.left_out = left_out
    }
  }

  public static let paramDocs = [
    "passphrase": "The passphrase of the copy: at least 8 characters. Either this or `key`.",
    "key": "The contents of a key file, in base64: 32 bytes, or their base64 or hexadecimal text.",
  ]
  public static let resultDocs = [
    "backup_id": "Names it in `store.backup_part`, only on this connection, for 5 minutes after the last part.",
    "size": "Its bytes.",
    "accounts": "How many accounts are in it.",
    "left_out": "Rows that cannot be read and are not in it; `grantctl repair` lists them. Absent: none.",
  ]
  public static let example = MethodExample(
    params: ["passphrase": "correct horse battery staple"],
    result: ["backup_id": "uJp0VvRGIOgbXk2GdWuPzA", "size": 74_210, "accounts": 13])
}

public enum StoreBackupPart: RPCMethod {
  public static let name = "store.backup_part"
  public static let access = Access.manage
  public static let summary = "Returns a part of a copy that `store.backup` made; the last part removes it."
  public static let errors: [ErrorReason] = []

  public struct Params: Codable, Sendable, Equatable {
    public var backup_id: String
    public var offset: Int

    public init(backup_id: String, offset: Int) {
      self.backup_id = backup_id
      self.offset = offset
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var data: String

    public init(data: String) { self.data = data }
  }

  public static let paramDocs = [
    "backup_id": "As `store.backup` says it.",
    "offset": "The first byte that is wanted.",
  ]
  public static let resultDocs = ["data": "Up to 128 KiB from there, in base64."]
  public static let example = MethodExample(
    params: ["backup_id": "uJp0VvRGIOgbXk2GdWuPzA", "offset": 0], result: ["data": "Z3JhbnRkLWJhY2t1cAo="])
}
