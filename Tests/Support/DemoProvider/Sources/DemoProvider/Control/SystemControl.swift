import Foundation
import Synchronization

extension Provider {
  /// The commands of the five systems.
  func system(_ command: String, _ body: DemoServer.JSON) throws(ControlFailure) -> Response {
    switch command {
    case "vms_session":
      let id = try addVMSSession(
        of: body["user"]?.string ?? "alice", client: body["client"]?.string ?? "web",
        isOnline: body["online"]?.bool ?? true, age: .seconds(body["age"]?.number ?? 0))
      return .json(["id": .string(id)])
    case "dropbox_app":
      guard let url = body["url"]?.string,
        let answer = DemoServer.AppAnswer(rawValue: body["answer"]?.string ?? "allow")
      else { throw ControlFailure("url is needed; answer is allow, allow_old or cancel") }
      let callback = try openDropboxApp(url, answer: answer, user: body["user"]?.string ?? "alice")
      return .json(["callback": .string(callback)])
    default: return .json(["error": "no such command"], status: 404)
    }
  }

  /// A session as if signed in from elsewhere, some time ago. Its identifier.
  func addVMSSession(
    of name: String, client: String, isOnline: Bool, age: Duration
  ) throws(ControlFailure) -> String {
    guard let user = User(hint: name) else { throw ControlFailure("user is alice, bob or user-N") }
    let started = options.now().addingTimeInterval(-age.asSeconds)
    return ledger.withLock { ledger in
      ledger.vms.add(
        .init(
          id: "", user: user, token: "", uuid: UUID().uuidString, client: client, isOnline: isOnline, started: started)
      ).id
    }
  }
}

extension DemoServer {
  /// A session at the video management system, as if signed in from elsewhere. Its identifier. Throws `Misuse` for a
  /// stranger.
  @discardableResult
  public func addVMSSession(
    of user: String = "alice", client: String = "web", isOnline: Bool = true, age: Duration = .zero
  ) throws(Misuse) -> String {
    do throws(ControlFailure) {
      return try provider.addVMSSession(of: user, client: client, isOnline: isOnline, age: age)
    } catch {
      throw Misuse(description: error.description)
    }
  }
}
