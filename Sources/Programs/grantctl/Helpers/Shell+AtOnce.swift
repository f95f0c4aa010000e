import BlockingClient
import BrokerAPI
import BrokerSocket

extension Shell {
  private static let connecting = Duration.seconds(10)
  /// An answer that takes longer is awaited in the ordinary way, which tells a person why.
  private static let quiet = Duration.seconds(1)

  /// As ``ask(_:_:)``, on this thread: an event loop would take longer to start than the broker to answer. For methods
  /// that may be asked twice.
  func askAtOnce<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params
  ) async throws(Failure) -> MethodResult<Method> {
    do throws(SocketClientError) {
      return MethodResult(json: try await callAtOnce(method, params))
    } catch {
      switch error {
      case .disconnected: break
      case .rpc(let error) where error.reason == .shuttingDown: break
      case .notRunning: throw choice.notRunning(terminal.services)
      default: throw Failure(error)
      }
    }
    return try await ask(method, params)
  }

  private func callAtOnce<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params
  ) async throws(SocketClientError) -> JSON {
    let choice = choice
    let params = (typed: params, json: JSON(encoding: params))
    let connection = try BlockingConnection.connect(path: choice.path, within: Self.connecting) { uid in
      choice.isNamed || ServerOwner.isExpected(uid, at: choice.path)
    }
    let id = try connection.send(method: Method.name, params: params.json)
    do throws(SocketClientError) {
      return try connection.reply(to: id, within: Self.quiet)
    } catch {
      guard error == .timedOut else { throw error }
    }
    // Asked again, a person would have two requests to allow.
    let notice = noticeOfConfirmation(Method.name, of: params.typed)
    defer { notice?.cancel() }
    return try await answer(on: connection, to: id, limit(of: Method.name, params.json)).get()
  }
}
