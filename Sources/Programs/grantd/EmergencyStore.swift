import Broker
import FoundationEssentials
import Glibc
import Grants
import Logging
import SQLiteStore

/// The emergency copy of tokens that the state folder refuses at a stop: next to the socket, or in the runtime
/// directory. Those are other file systems than the state's, usually in memory. The next start merges it.
struct EmergencyStore {
  private let paths: [String]
  /// When the folders are emptied.
  private let end: String

  /// - Parameters:
  ///   - folders: the folders to try, in this order.
  ///   - state: the state folder: brokers may share a runtime directory.
  ///   - isUser: the folders disappear with the user's last session, unless the user lingers.
  init(in folders: [String], state: String, isUser: Bool) {
    end = isUser ? "you log out" : "the machine is restarted"
    var seen: Set<String> = []
    paths = folders.filter { seen.insert($0).inserted }.map { "\($0)/\(Places.name(of: state)).unsaved.db" }
  }

  /// - Throws: if a file exists and cannot be read now: its tokens are newer than the state's.
  func takeOver(into store: SQLiteStore, _ logger: Logger) async throws(DaemonFailure) {
    for path in paths {
      do throws(StoreError) {
        let taken = try await store.loadEmergencySave(from: path)
        if taken.isForeign {
          logger.warning("other users can write \(path), so it is not from grantd: it was not used")
        }
        if !taken.unreadable.isEmpty {
          // While the state refuses writes, it stays there.
          let file = taken.failure == nil ? "\(path).unreadable" : path
          logger.error(
            "what could not be saved at the last stop of \(Self.list(taken.unreadable)) cannot be opened",
            metadata: ["hint": "It stays in \(file). `grantctl status` says which need a new sign-in."])
        }
        guard !taken.accounts.isEmpty else { continue }
        logger.notice("restored accounts that could not be saved at the last stop: \(Self.list(taken.accounts))")
        guard let failure = taken.failure else { continue }
        logger.error(
          "it is in memory and in \(path) until the state can be written: \(failure.message)",
          metadata: ["hint": "\(failure.hint)"])
      } catch {
        let message = "what could not be saved at the last stop cannot be taken over: \(error.message)"
        switch error {
        case .newer, .corrupt, .wrongKey, .unreadableAccount:
          logger.error(
            "\(message)", metadata: ["hint": "It is in \(path).unreadable. Sign in again to accounts that need it."])
        case .owned, .missing, .unusableKey, .unreadable, .unwritable, .conflict, .shared, .unknown, .closed:
          throw DaemonFailure(
            message: message,
            hint: "See why \(path) cannot be read, then start grantd again: it has the latest tokens.", status: 1)
        }
      }
    }
  }

  /// - Parameter failure: why the state cannot be written.
  /// - Returns: nil: all is on disk.
  func save(
    _ accounts: [any PackedAccount], with rest: StoredState, of store: SQLiteStore, because failure: StoreError?
  ) async -> DaemonFailure? {
    guard !accounts.isEmpty else { return nil }
    let why = failure.map { ": \($0.message)" } ?? ""
    let message = "the latest tokens of \(Self.list(accounts.map(\.account))) could not be saved\(why)"
    var errors: [String] = []
    for path in paths {
      do throws(StoreError) {
        try await store.writeEmergencySave(accounts, with: rest, to: path, id: UUID().uuidString)
        return DaemonFailure(
          message: "\(message); they are in \(path)",
          hint: "Start grantd again before \(end): the next start takes them over.", status: 1)
      } catch {
        errors.append(error.message)
      }
    }
    return DaemonFailure(
      message: "\(message), nor elsewhere: \(errors.joined(separator: "; "))",
      hint: "Make sure that the disk can be written, start grantd, and sign in again to the accounts that need it.",
      status: 1)
  }

  /// The state cannot be opened: its repair must consider that newer tokens exist.
  func mention(in failure: inout DaemonFailure) {
    guard let path = paths.first(where: { access($0, F_OK) == 0 }) else { return }
    failure.hint +=
      " The latest tokens of the last stop are in \(path), which goes when \(end): copy it elsewhere. The next start that "
      + "has a state folder takes them over from there."
  }

  /// Another broker has the state: nothing is written that it would take over.
  func lost(_ accounts: [any PackedAccount], to owner: StoreError) -> DaemonFailure {
    var failure = DaemonFailure(owner)
    if !accounts.isEmpty {
      failure.message += "; the latest tokens of \(Self.list(accounts.map(\.account))) were not saved"
    }
    return failure
  }

  /// The maximum number of names: a line of the journal may be longer than users read.
  private static let named = 500

  private static func list(_ accounts: [AccountName]) -> String {
    let names = accounts.prefix(named).map(\.rawValue).joined(separator: ", ")
    return accounts.count > named ? "\(names) and \(accounts.count - named) more" : names
  }
}
