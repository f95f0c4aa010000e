import Glibc
import Platform
import Testing

@Suite struct EnvironmentTests {
  @Test("the path of the own program can be executed") func ownProgram() throws {
    let path = try #require(Environment.ownProgram)
    #expect(path.hasPrefix("/") && access(path, X_OK) == 0)
  }
}
