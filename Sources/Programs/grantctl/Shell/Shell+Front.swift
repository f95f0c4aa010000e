import BlockingClient
import BrokerAPI
import BrokerSocket
import Platform

/// What the front of grantctl began (decision 50).
extension Shell {
  /// The answer to the request that the front sent.
  func answer(on left: Int32, _ limit: Duration) async throws(Failure) -> JSON {
    do throws(SocketClientError) {
      return try await answer(on: BlockingConnection(descriptor: left), to: LeftConnection.requestID, limit).get()
    } catch {
      throw Failure(error)
    }
  }

  /// The answer to a request that was sent, on a thread of its own.
  func answer(
    on connection: BlockingConnection, to id: Int64, _ limit: Duration
  ) async -> Result<JSON, SocketClientError> {
    // The caller waits until that thread has done with it.
    nonisolated(unsafe) let connection = connection
    return await withCheckedContinuation { waiter in
      let code = OwnThread.start("answer") {
        waiter.resume(
          returning: Result { () throws(SocketClientError) in try connection.reply(to: id, within: limit) })
      }
      if code != 0 { waiter.resume(returning: .failure(.disconnected)) }
    }
  }
}
