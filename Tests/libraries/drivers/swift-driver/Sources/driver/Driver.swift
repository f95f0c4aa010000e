// The driver of Swift.
import Foundation
import Grantd

func output(_ answer: Answer) {
  var line = try! JSONSerialization.data(withJSONObject: answer)
  line.append(UInt8(ascii: "\n"))
  FileHandle.standardOutput.write(line)
}

func perform(_ command: Command, _ client: GrantClient) async throws -> any Sendable {
  switch command.do {
  case "token":
    return members(
      try await client.token(
        command.account!, scopes: command.scopes, resource: command.resource,
        minTTL: command.min_ttl.map { .seconds($0) }, timeout: command.timeout.map { .seconds($0) }))
  case "report":
    return try await client.reportRejected(account: command.account!, generation: command.generation!)
  case "print":
    return printed(try await GrantClient.shared.token(command.account!), client)
  case "accounts":
    return try await client.accounts().map { ["account": $0.account, "state": $0.state.rawValue] }
  case "login":
    let done = try await client.login(provider: command.provider!, account: command.account!) { places in
      output(["ok": places.map { ["kind": $0.kind, "url": $0.url ?? ""] }])
    }
    return ["state": done.state, "account": ["account": done.account?.account ?? ""]] as Answer
  case "many":
    return await many(command, client)
  case "interrupted":
    return try await interrupted(command, client)
  case "events":
    let events = try await client.events(command.types!.map { EventType(rawValue: $0) })
    output(["ok": "subscribed"])
    for try await event in events where event.account == command.account {
      return ["type": event.type.rawValue, "at": event.at] as Answer
    }
    return ""
  case "fetch":
    return try await fetch(command, client)
  default:
    throw Skip()
  }
}

struct Skip: Error {}

@main
struct Driver {
  static func main() async throws {
    let client = GrantClient()
    while let line = readLine() {
      do {
        output(["ok": try await perform(JSONDecoder().decode(Command.self, from: Data(line.utf8)), client)])
      } catch let error as GrantError {
        output(["error": described(error)])
      } catch is Skip {
        output(["skip": "a Swift program forks only to execute another one"])
      }
    }
    await client.close()
  }
}
