import BrokerAPI
import Logging
import OAuth

extension Backups {
  /// `store.rotate_key`.
  func rotateKey() async throws(RPCError) -> StoreRotateKey.Result {
    let administration = try ownAdministration()
    if let failure = journal.failure { throw storeError(failure) }
    let began = uptime
    let rotation: KeyRotation
    do throws(KeyRotationError) {
      rotation = try await administration.rotateKey()
    } catch {
      throw keyError(error)
    }
    accounts.repack()
    let took = Double((uptime - began).milliseconds) / 1000
    logger.notice(
      "the state is sealed under a new key",
      metadata: ["key_file": "\(rotation.file)", "accounts": "\(rotation.accounts)", "seconds": "\(took)"])
    for remains in rotation.remains { logger.warning("\(remains)") }
    return .init(
      key_file: rotation.file, accounts: rotation.accounts, seconds: took, warnings: rotation.remains)
  }

  private func keyError(_ error: KeyRotationError) -> RPCError {
    switch error {
    case .fixed(let source):
      return RPCError(
        .keyNotReplaceable, "the key is given to grantd in \(source), which grantd cannot write", hint: Self.bySystemd)
    case .unwritable(let file, let detail):
      return RPCError(
        .keyNotReplaceable, "the new key cannot be written to \(file): \(detail)",
        hint: "Nothing was changed. Let grantd's user write in that folder, and try again.")
    case .store(let error):
      // Commits have the same fault; damage is repaired from memory.
      if error.isLoss { journal.failed(error) }
      return storeError(error)
    }
  }

  private static let bySystemd = """
    Nothing was changed. As root, with C=/etc/credstore.encrypted:
    1. systemd-creds decrypt --name=grantd.key $C/grantd.key - |
       systemd-creds encrypt --name=grantd.key.previous - $C/grantd.key.previous
    2. head -c 32 /dev/urandom | base64 |
       systemd-creds encrypt --name=grantd.key - $C/grantd.key
    3. systemctl edit grantd, in [Service]:
       LoadCredentialEncrypted=grantd.key.previous:$C/grantd.key.previous
    4. systemctl restart grantd
    5. When the journal reports that the old key is no longer needed: remove the line
       of step 3 and the file of step 1, then run systemctl daemon-reload.
    docs/keys-and-backups.md has it in full.
    """
}

extension StoreRotateKey: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.upkeep.backups.rotateKey()
  }
}
