import Broker
import BrokerAPI
import Glibc
import OAuth
import Sealing
import Synchronization

/// The lock of a user's broker: the key goes under the passphrase while it serves, then the process ends in order and
/// executes the program again, which finds the state locked (``LockedServing``). So no secret is in its memory.
final class UserLock: KeyLock {
  private let folder: String
  private let load: @Sendable () throws(StoreError) -> SealingKey
  private let wanted = Atomic(false)

  /// - Parameters:
  ///   - folder: of the state.
  ///   - load: reads the key, as the start does.
  init(folder: String, load: @escaping @Sendable () throws(StoreError) -> SealingKey) {
    self.folder = folder
    self.load = load
  }

  /// Whether the end of this process is a lock.
  var isWanted: Bool { wanted.load(ordering: .acquiring) }

  func lock() {
    wanted.store(true, ordering: .releasing)
    kill(getpid(), SIGTERM)
  }

  func prepare(_ passphrase: SecretText?) async throws(RPCError) -> [String] {
    let key: SealingKey
    do throws(StoreError) { key = try load() } catch { throw RPCError(.storeFailure, error.message, hint: error.hint) }
    let locked = LockedKey(folder: folder)
    // Exposed to be put into the same type of another room.
    let secret = passphrase.map { Secret($0.exposed) }
    // It takes a second of one processor, which the broker's own threads need.
    let result = await Task.detached { () -> Result<Bool, LockedKey.Failure> in
      do throws(LockedKey.Failure) { return .success(try locked.lock(key, secret)) } catch { return .failure(error) }
    }.value
    switch result {
    case .success(true): return []
    case .success(false): return ["the key stays in \(key.source): programs of this user can read it there"]
    case .failure(let failure): throw RPCError(failure)
    }
  }
}

extension RPCError {
  init(_ failure: LockedKey.Failure) {
    switch failure {
    case .wrongPassphrase:
      self.init(
        .locked, "the passphrase is wrong",
        hint: "Try again with `grantctl unlock`. docs/lock.md has the steps for a forgotten passphrase.")
    case .needsPassphrase:
      self = .invalidParams("the first lock needs a passphrase", hint: "Choose one with `grantctl lock`.")
    case .unusablePassphrase(let reason):
      self = .invalidParams(reason, hint: "Try again with another passphrase, of at least 8 characters.")
    case .unusable(let path, let detail):
      self.init(.keyNotReplaceable, "\(path): \(detail)", hint: "Nothing was changed; see docs/lock.md.")
    }
  }
}
