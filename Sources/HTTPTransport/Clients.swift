import AsyncHTTPClient
import Broker
import NIOCore
import NIOPosix
import NIOSSL
import OAuth
import Synchronization

/// One HTTP client for each pool of connections and choice of certificates: a connection that one opened never serves
/// another. They share the event loops.
final class Clients: Sendable {
  /// Clients at once. A provider has three where all of its uses go on at the same time.
  static let most = 512
  /// What nobody used for so long is closed.
  static let idle = TimeAmount.seconds(60)
  static let connectTimeout = TimeAmount.seconds(10)
  /// The same where other addresses are left: all of them have to be tried before a request's time is over.
  static let shortConnectTimeout = TimeAmount.seconds(4)

  struct Key: Hashable {
    var pool: ConnectionPool
    var tls: TLSChoice?
    /// Where the name of the request is reached; nil: the request has an address itself.
    var place: Place?

    struct Place: Hashable {
      var host: String
      var address: String
      /// There are others to try, so that less time is spent on this one.
      var isOneOfMany: Bool
    }
  }

  private struct Entry {
    let client: HTTPClient
    var users = 0
    /// Counts the uses of all, so that the least is the one that was unused the longest.
    var lastUse: UInt64
    var end: Scheduled<Void>?
  }

  private struct State {
    var entries: [Key: Entry] = [:]
    var uses: UInt64 = 0
    var isClosed = false
  }

  private let state = Mutex(State())
  private let most: Int
  private let idle: TimeAmount

  init(most: Int = Clients.most, idle: TimeAmount = Clients.idle) {
    self.most = most
    self.idle = idle
  }

  /// How many there are now.
  var count: Int { state.withLock { $0.entries.count } }

  /// The client of a key, to be given back after use.
  func take(_ key: Key) throws(TransportError) -> HTTPClient {
    var evicted: HTTPClient?
    defer { evicted.map(Self.shutDown) }
    // Made under the lock: it takes milliseconds where there are certificates to read, once for each key.
    let taken = state.withLock { state -> Result<HTTPClient, TransportError> in
      guard !state.isClosed else { return .failure(TransportError(.notSent, "the broker is ending")) }
      state.uses += 1
      if var entry = state.entries[key] {
        entry.users += 1
        entry.lastUse = state.uses
        entry.end?.cancel()
        entry.end = nil
        state.entries[key] = entry
        return .success(entry.client)
      }
      do throws(TransportError) {
        evicted = try makeRoom(&state)
        let tls = try key.tls?.configuration() ?? SystemAuthorities.configuration()
        let client = Self.client(tls, connections: key.pool.size, at: key.place)
        state.entries[key] = Entry(client: client, users: 1, lastUse: state.uses)
        return .success(client)
      } catch {
        return .failure(error)
      }
    }
    return try taken.get()
  }

  func giveBack(_ key: Key) {
    state.withLock { state in
      guard var entry = state.entries[key] else { return }
      entry.users -= 1
      if entry.users == 0 {
        let lastUse = entry.lastUse
        entry.end = MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: idle) { [weak self] in
          self?.closeUnused(key, since: lastUse)
        }
      }
      state.entries[key] = entry
    }
  }

  func close() async {
    let clients = state.withLock { state in
      state.isClosed = true
      defer { state.entries = [:] }
      for entry in state.entries.values { entry.end?.cancel() }
      return state.entries.values.map(\.client)
    }
    for client in clients { try? await client.shutdown() }
  }

  private func closeUnused(_ key: Key, since lastUse: UInt64) {
    let unused = state.withLock { state -> HTTPClient? in
      guard let entry = state.entries[key], entry.users == 0, entry.lastUse == lastUse else { return nil }
      state.entries[key] = nil
      return entry.client
    }
    unused.map(Self.shutDown)
  }

  /// Where all places are taken, the client that was unused the longest goes; it is returned to be shut down.
  private func makeRoom(_ state: inout State) throws(TransportError) -> HTTPClient? {
    guard state.entries.count >= most else { return nil }
    let unused = state.entries.filter { $0.value.users == 0 }.min { $0.value.lastUse < $1.value.lastUse }
    guard let (key, entry) = unused else {
      throw TransportError(.notSent, "\(most) pools of connections are in use at once")
    }
    entry.end?.cancel()
    state.entries[key] = nil
    return entry.client
  }

  private static func shutDown(_ client: HTTPClient) {
    // It stays alive until that is done.
    client.shutdown { _ in }
  }
}
