import Synchronization

@testable import Broker

/// Token files in memory.
final class MemoryFiles: TokenFileDisk {
  /// The groups that users have now, instead of those in the configuration.
  let groups = Mutex<[UInt32: [UInt32]]>([:])

  func current(_ reader: TokenFile.Reader) async -> TokenFile.Reader {
    guard case .user(let uid, let gid, _) = reader, let now = groups.withLock({ $0[uid] }) else { return reader }
    return .user(uid, gid: gid, groups: now)
  }

  private struct State {
    var content: [TokenFile.Place: String] = [:]
    var failure: TokenFileFailure?
    var writes = 0
  }

  private let state = Mutex(State())
  private let reports = Mutex<AsyncStream<[String]>.Continuation?>(nil)

  /// For the latest broker.
  var changes: AsyncStream<[String]> {
    let (changes, continuation) = AsyncStream.makeStream(of: [String].self)
    reports.withLock {
      $0?.finish()
      $0 = continuation
    }
    return changes
  }

  /// Another program writes the file; nil: deletes it.
  func overwrite(_ path: String, with text: String?) {
    self[path] = text
    reports.withLock { $0 }?.yield([path])
  }

  subscript(path: String) -> String? {
    get { state.withLock { $0.content[.init(path: path)] } }
    set { state.withLock { $0.content[.init(path: path)] = newValue } }
  }
  var count: Int { state.withLock { $0.content.count } }
  var writes: Int { state.withLock { $0.writes } }

  /// What all that follows ends with.
  func fail(_ failure: TokenFileFailure?) { state.withLock { $0.failure = failure } }

  func write(_ content: [UInt8], to file: TokenFile) async -> Result<Bool, TokenFileFailure> {
    state.withLock { state in
      if let failure = state.failure { return .failure(failure) }
      let text = String(decoding: content, as: UTF8.self)
      guard state.content[file.place] != text else { return .success(false) }
      state.content[file.place] = text
      state.writes += 1
      return .success(true)
    }
  }

  func remove(_ place: TokenFile.Place) async -> TokenFileFailure? {
    state.withLock { state in
      if let failure = state.failure { return failure }
      state.content[place] = nil
      return nil
    }
  }
}
