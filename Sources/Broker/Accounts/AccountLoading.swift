import Grants

/// Reads all accounts at a start, page by page, on other threads than the broker's: a page is read while the one before
/// it is unpacked and the one before that is taken over.
struct AccountLoading {
  typealias Reading = Task<Result<[any PackedAccount], StoreError>, Never>
  /// A page's accounts, and the page behind it, whose reading has begun; nil: this is the last one.
  typealias Page = Task<Result<(accounts: [(any PackedAccount, Grant)], following: Reading?), StoreError>, Never>

  private let store: any Store
  private let surroundings: Surroundings

  init(_ store: any Store, _ surroundings: Surroundings) {
    self.store = store
    self.surroundings = surroundings
  }

  func first() -> Page { unpack(read(after: nil)) }

  func unpack(_ reading: Reading) -> Page {
    Task.detached { [self] in
      do throws(StoreError) {
        let packed = try await reading.value.get()
        let following = packed.last.map { read(after: $0.account) }
        var accounts: [(any PackedAccount, Grant)] = []
        accounts.reserveCapacity(packed.count)
        for (account, jitter) in zip(packed, surroundings.jitters(packed.count)) {
          accounts.append((account, Grant(try account.read(.moments), jitter: jitter)))
        }
        return .success((accounts, following))
      } catch {
        return .failure(error)
      }
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
