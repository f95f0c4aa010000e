import Listening
import NIOCore

/// The connections for credentials, on their loop. At the limit the next ones wait in the kernel: none is refused
/// because of others.
final class CredentialConnectionTable {
  private let limit: Int
  private(set) var connections: [ObjectIdentifier: CredentialHandler] = [:]
  /// For clients other than the manager.
  var refusals = Refusals()
  /// Listening sockets that would accept.
  private var held: [ChannelHandlerContext] = []

  init(limit: Int) {
    self.limit = limit
  }

  func enter(_ connection: CredentialHandler) {
    connections[ObjectIdentifier(connection)] = connection
  }

  func remove(_ connection: CredentialHandler) {
    guard connections.removeValue(forKey: ObjectIdentifier(connection)) != nil, !held.isEmpty else { return }
    let waiting = held
    held = []
    for context in waiting { accept(context) }
  }

  fileprivate func accept(_ context: ChannelHandlerContext) {
    guard connections.count < limit else { return held.append(context) }
    context.read()
  }

  fileprivate func remove(_ context: ChannelHandlerContext) { held.removeAll { $0 === context } }
}

/// Before a listening socket accepts, the table is asked.
final class CredentialGate: ChannelOutboundHandler {
  typealias OutboundIn = Any

  private let table: CredentialConnectionTable

  init(_ table: CredentialConnectionTable) {
    self.table = table
  }

  func read(context: ChannelHandlerContext) { table.accept(context) }
  func handlerRemoved(context: ChannelHandlerContext) { table.remove(context) }
}
