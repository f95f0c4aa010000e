import AsyncClient
import BlockingClient
import BrokerAPI

/// A broker that is restarted meanwhile: asked once more, where asking twice does no harm.
extension Shell {
  /// How long a broker may be away, where its socket is not kept for it.
  private static let away = Duration.seconds(5)
  private static let pause = Duration.milliseconds(100)
  /// They change nothing, or nothing more the second time.
  private static let repeatable: Set<String> = [
    TokenGet.name, TokenIntrospect.name, AccountList.name, AccountGet.name, AccountUserinfo.name, AccountSessions.name,
    LoginList.name, ProviderList.name, ProviderGet.name, ProviderCheck.name, PolicyExplain.name, BrokerStatus.name,
    BrokerMetrics.name,
  ]

  /// Calls one method on a connection of its own, and again on another where the broker ended during the first.
  func askOverRestart(_ method: String, _ params: JSON?) async throws(Failure) -> JSON {
    do throws(Failure) {
      if method == TokenGet.name, let left = terminal.leftConnection() {
        return try await answer(on: left, limit(of: method, params))
      }
      return try await ask(method, params, on: connect())
    } catch {
      guard Self.repeatable.contains(method), error.isOfAnEnd else { throw error }
    }
    return try await ask(method, params, on: connectAgain())
  }

  private func connectAgain() async throws(Failure) -> SocketClient {
    let clock = ContinuousClock()
    let end = clock.now + Self.away
    while true {
      do throws(Failure) {
        return try await connect()
      } catch {
        guard error.status == .notRunning, clock.now < end else { throw error }
      }
      guard (try? await clock.sleep(for: Self.pause)) != nil else { throw choice.notRunning(terminal.services) }
    }
  }
}

extension Failure {
  /// The broker was stopping, or went away before it answered.
  fileprivate var isOfAnEnd: Bool { rpc?.reason == .shuttingDown || self == Failure(SocketClientError.disconnected) }
}
