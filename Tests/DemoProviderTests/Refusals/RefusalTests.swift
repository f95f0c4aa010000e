import DemoProvider
import Testing

/// A request that a strict server refuses. The integration tests rely on it: a provider that accepts everything finds no
/// error of grantd.
struct Refusal: Sendable, CustomTestStringConvertible {
  typealias JSON = DemoServer.JSON
  typealias Change = @Sendable (inout DemoServer.Options) -> Void
  typealias Ask = @Sendable (DemoServer, TestClient) async -> Answer?

  let testDescription: String
  let status: Int
  /// The member `error` of the answer or of the callback; nil: there is none.
  let error: String?
  let change: Change
  let ask: Ask

  init(
    _ name: String, _ status: Int, _ error: String?, with change: @escaping Change = { _ in }, _ ask: @escaping Ask
  ) {
    testDescription = name
    self.status = status
    self.error = error
    self.change = change
    self.ask = ask
  }

  static let all = [
    clients, assertions, proofs, wrongProofs, grants, wrongExchanges, requests, wrongRequests, wrongPushes,
    wrongObjects, registrations, wrongMetadata, systems, calls,
  ].flatMap { $0 }

  /// The parameters of a request in a fixed order; none: the parameter is left out.
  static func text(_ fields: [String: String?]) -> String {
    fields.map { "\($0.key)=\($0.value ?? "none")" }.sorted().joined(separator: " ")
  }
}

@Suite struct RefusalTests {
  @Test(arguments: Refusal.all) func aRequestThatBreaksTheProtocolIsRefused(_ refusal: Refusal) async throws {
    try await withServer(refusal.change) { server, client in
      let answer = await refusal.ask(server, client)
      #expect(answer?.status == refusal.status)
      #expect((answer?.json?["error"]?.string ?? answer?.callback["error"]) == refusal.error)
      #expect(answer?.json?["access_token"] == nil && answer?.callback["code"] == nil)
    }
  }
}
