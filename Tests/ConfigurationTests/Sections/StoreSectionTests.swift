import Foundation
import OAuth
import Testing

@testable import GrantdConfiguration

@Suite struct StoreSectionTests {
  @Test("a shared store has a connection string and a password file") func shared() throws {
    let fixture = try Fixture()
    let password = try fixture.write("password", "hunter2\n", mode: 0o600)
    let settings = try fixture.load(
      """
      [store]
      kind = "postgresql"
      connection = "host=db.example.com dbname=grantd passfile=/etc/grantd/pgpass"
      password_file = "\(password)"
      """)
    #expect(settings.store.kind == .postgresql)
    #expect(settings.store.connection == "host=db.example.com dbname=grantd passfile=/etc/grantd/pgpass")
    #expect(settings.store.password == Secret("hunter2"))
  }

  @Test(
    "a password in the connection string is refused, and not repeated",
    arguments: [
      "host=db password=hunter2", "host=db PASSWORD = hunter2", "postgresql://me:hunter2@db/grantd",
      "postgres://db/grantd?user=me&password=hunter2", "password='hunter2'", "host=db  password=hunter2",
    ])
  func password(_ text: String) throws {
    let error = #expect(throws: ConfigurationError.self) {
      try Fixture().load("[store]\nkind = \"postgresql\"\nconnection = \(quoted(text))")
    }
    let description = try #require(error).description
    #expect(description.contains("it must not contain a password") && !description.contains("hunter2"))
  }

  @Test(
    "a kind and a connection belong together",
    arguments: [
      ("connection = \"service=grantd\"", "no kind"), ("kind = \"postgresql\"", "needs connection"),
      ("kind = \"mysql\"", "\"sqlite\" or \"postgresql\""), ("kind = \"postgresql\"\nconnection = \"\"", "connection"),
    ])
  func incomplete(_ text: String, _ message: String) throws {
    let error = #expect(throws: ConfigurationError.self) { try Fixture().load("[store]\n\(text)") }
    #expect(try #require(error).description.contains(message))
  }

  private func quoted(_ text: String) -> String {
    "\"" + text.replacingOccurrences(of: "\t", with: "\\t") + "\""
  }
}
