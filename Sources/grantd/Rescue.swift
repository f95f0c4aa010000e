import Broker
import Glibc
import Grants
import Logging
import SQLiteStore

/// Where the tokens go that the state folder does not take at a stop: beside the socket, or into the runtime directory.
/// Those are other file systems than the state's, as a rule in memory. The next start takes them over.
struct Rescue {
  private let paths: [String]

  /// - Parameters:
  ///   - folders: in which it is tried, in this order.
  ///   - state: the state folder: brokers may share a runtime directory.
  init(in folders: [String], state: String) {
    // FNV-1a.
    let hash = state.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    var seen: Set<String> = []
    paths = folders.filter { seen.insert($0).inserted }.map { "\($0)/grantd-\(String(hash, radix: 16)).unsaved.db" }
  }

  func takeOver(into store: SQLiteStore, _ logger: Logger) async {
    for path in paths {
      do throws(StoreError) {
        let accounts = try await store.takeRescued(from: path)
        guard !accounts.isEmpty else { continue }
        logger.notice("took over what could not be saved at the last stop: \(Self.list(accounts))")
      } catch {
        logger.error(
          "what could not be saved at the last stop was not taken over from \(path): \(error.message)",
          metadata: ["hint": "\(error.hint)"])
      }
    }
  }

  /// - Parameter failure: why the state cannot be written.
  /// - Returns: nil: all is on disk.
  func save(
    _ accounts: [any PackedAccount], of store: SQLiteStore, because failure: StoreError?
  ) async -> DaemonFailure? {
    guard !accounts.isEmpty else { return nil }
    let why = failure.map { ": \($0.message)" } ?? ""
    let message = "the latest tokens of \(Self.list(accounts.map(\.account))) could not be saved\(why)"
    var errors: [String] = []
    for path in paths {
      // The runtime directory is there, or can be made where its parent is.
      mkdir(String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]), 0o700)
      do throws(StoreError) {
        try await store.rescue(accounts, to: path)
        return DaemonFailure(
          message: "\(message); they are in \(path)",
          hint: "Start grantd again before the machine is restarted: the next start takes them over.", status: 1)
      } catch {
        errors.append(error.message)
      }
    }
    return DaemonFailure(
      message: "\(message), nor elsewhere: \(errors.joined(separator: "; "))",
      hint: "Make room, start grantd, and sign in again to those of these accounts that need it.", status: 1)
  }

  private static func list(_ accounts: [AccountName]) -> String {
    let names = accounts.prefix(20).map(\.rawValue).joined(separator: ", ")
    return accounts.count > 20 ? "\(names) and \(accounts.count - 20) more" : names
  }
}
