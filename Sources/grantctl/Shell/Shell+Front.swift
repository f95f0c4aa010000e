import BlockingClient
import BrokerAPI
import BrokerSocket
import Foundation

/// What the front of grantctl began (docs/decisions/0050-front-of-grantctl.md).
extension Shell {
  /// The answer to the request that the front sent, on a thread of its own: the wait blocks it.
  func answer(on left: Int32, _ limit: Duration) async throws(Failure) -> JSON {
    let answer = await withCheckedContinuation {
      (waiter: CheckedContinuation<Result<JSON, SocketClientError>, Never>) in
      Thread.detachNewThread {
        let connection = BlockingConnection(descriptor: left)
        waiter.resume(
          returning: Result { () throws(SocketClientError) in
            try connection.reply(to: LeftConnection.requestID, within: limit)
          })
      }
    }
    do throws(SocketClientError) {
      return try answer.get()
    } catch {
      throw Failure(error)
    }
  }
}
