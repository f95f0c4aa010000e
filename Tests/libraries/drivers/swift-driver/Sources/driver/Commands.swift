import Foundation
import FoundationNetworking
import Grantd
import Synchronization

/// What the test sends. All members of all commands.
struct Command: Decodable, Sendable {
  var `do`: String
  var account: String?
  var then: String?
  var provider: String?
  var scopes: [String]?
  var resource: String?
  var min_ttl: Double?
  var timeout: Double?
  var generation: Int64?
  var count: Int?
  var threads: Int?
  var separate: Bool?
  var types: [String]?
  var url: String?
  var body: String?
  var stream: Bool?
}

typealias Answer = [String: any Sendable]

func members(_ token: Token) -> Answer {
  [
    "access_token": token.accessToken, "token_type": token.type, "expires_at": token.expiresAt ?? 0,
    "scope": token.scope, "account": token.account, "provider": token.provider, "generation": token.generation,
  ]
}

func described(_ error: GrantError) -> Answer {
  let known: [GrantError.Reason] = [.loginRequired, .notPermitted, .temporarilyUnavailable]
  var isType = false
  do { throw error } catch GrantError.Reason.overloaded {} catch { isType = known.contains { $0 ~= error } }
  return [
    "reason": error.reason.rawValue, "message": error.message, "hint": error.hint, "is_type": isType,
    "retry_after": error.retryAfter.map { $0 / .seconds(1) } ?? 0, "texts": ["\(error)", String(reflecting: error)],
  ]
}

func many(_ command: Command, _ client: GrantClient) async -> Answer {
  let (account, each) = (command.account!, command.count! / command.threads!)
  return await withTaskGroup(of: (Int, GrantError?).self) { group in
    for _ in 0..<command.threads! {
      let client = command.separate == true ? GrantClient() : client
      group.addTask {
        var (good, failed) = (0, GrantError?.none)
        for _ in 0..<each {
          do {
            _ = try await client.token(account)
            good += 1
          } catch { failed = error as? GrantError }
        }
        return (good, failed)
      }
    }
    var (good, failed) = (0, [Answer]())
    for await done in group {
      good += done.0
      if let error = done.1 { failed.append(described(error)) }
    }
    return ["good": good, "failed": failed]
  }
}

func printed(_ token: Token, _ client: GrantClient) -> [String] {
  var dumped = ""
  dump([token], to: &dumped)
  dump(client, to: &dumped)
  let texts = ["\(token)", String(reflecting: token), "\([token])", String(describing: Optional(token)), "\(client)"]
  return texts + [dumped]
}

func interrupted(_ command: Command, _ client: GrantClient) async throws -> Answer {
  let call = Task { try await client.token(command.account!) }
  try await Task.sleep(for: .milliseconds(200))
  call.cancel()
  var wasInterrupted = false
  do { _ = try await call.value } catch is CancellationError { wasInterrupted = true }
  return ["was_interrupted": wasInterrupted, "token": try await client.token(command.then!).accessToken]
}

func fetch(_ command: Command, _ client: GrantClient) async throws -> Answer {
  let configuration = URLSessionConfiguration.ephemeral
  configuration.connectionProxyDictionary = [:]
  let session = URLSession(configuration: configuration)
  let (data, response) = try await client.withToken(
    command.account!, canRepeat: command.stream != true,
    isUnauthorized: { (answer: (Data, URLResponse)) in (answer.1 as? HTTPURLResponse)?.statusCode == 401 }
  ) { token in
    var request = URLRequest(url: URL(string: command.url!)!)
    request.setValue(token.header.value, forHTTPHeaderField: token.header.name)
    if let body = command.body { (request.httpMethod, request.httpBody) = ("POST", Data(body.utf8)) }
    return try await session.data(for: request)
  }
  let body = try JSONDecoder().decode([String: String].self, from: data)["body"] ?? ""
  return ["status": (response as? HTTPURLResponse)?.statusCode ?? 0, "body": body]
}
