import Callers
import Logging
import Principals

extension ConnectionHandler {
  /// The data that all connections share.
  final class Shared: Sendable {
    let dispatcher: any Dispatcher
    let answering: Answering
    let table: ConnectionTable
    let limits: SocketServer.Limits
    let logger: Logger
    let system: SystemCalls
    let groups = ControlGroups()

    init(
      dispatcher: any Dispatcher, load: SocketServer.Load, limits: SocketServer.Limits, logger: Logger,
      system: SystemCalls
    ) {
      self.dispatcher = dispatcher
      answering = Answering(dispatcher: dispatcher, load: load)
      table = load.table
      self.limits = limits
      self.logger = logger
      self.system = system
    }
  }
}
