import Grants

/// Reads all accounts at a start, page by page, on other threads than the broker's: a page is read while the one before
/// it is unpacked and the one before that is taken over.
struct AccountLoading {
  typealias Reading = Task<Result<[any PackedAccount], StoreError>, Never>
  /// A page's accounts, and the page behind it, whose reading has begun; nil: this is the last one.
  typealias Page = Task<Result<(accounts: [Loaded], following: Reading?), StoreError>, Never>

  struct Loaded: Sendable {
    let packed: any PackedAccount
    /// The loaded part: ``AccountDepth/moments``.
    let grant: Grant
    /// As of ``StoredAccount``.
    var leftOut: [String] = []
    var revision: Revision?
    var issuer: String?
  }

  private let store: any Store
  private let system: SystemDependencies

  init(_ store: any Store, _ system: SystemDependencies) {
    self.store = store
    self.system = system
  }

  func first() -> Page { unpack(read(after: nil)) }

  func unpack(_ reading: Reading) -> Page {
    Task.detached { [self] in
      do throws(StoreError) {
        let packed = try await reading.value.get()
        let following = packed.last.map { read(after: $0.account) }
        var accounts: [Loaded] = []
        accounts.reserveCapacity(packed.count)
        for (account, jitter) in zip(packed, system.jitters(packed.count)) {
          accounts.append(try load(account, jitter))
        }
        return .success((accounts, following))
      } catch {
        return .failure(error)
      }
    }
  }

  /// Damage concerns only its account.
  private func load(_ account: any PackedAccount, _ jitter: Double) throws(StoreError) -> Loaded {
    do throws(StoreError) {
      let stored = try account.read(.moments)
      return Loaded(
        packed: account, grant: Grant(stored, jitter: jitter), leftOut: stored.leftOut, revision: stored.revision,
        issuer: stored.issuer)
    } catch .unreadableAccount(let name, let detail) {
      let message = StoreError.unreadableAccount(name, detail: detail).message
      let remains = try account.read(.remains)
      let rest = remains.grant.unreadable(message, at: system.now())
      return Loaded(
        packed: account, grant: Grant(saved: rest, token: nil, jitter: jitter), revision: remains.revision,
        issuer: remains.issuer)
    }
  }

  private func read(after last: AccountName?) -> Reading {
    Task.detached { [store] in
      do throws(StoreError) {
        return .success(try await store.accounts(after: last, most: Limit.loadedAccounts))
      } catch {
        return .failure(error)
      }
    }
  }
}
