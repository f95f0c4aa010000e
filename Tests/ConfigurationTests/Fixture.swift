import Foundation

@testable import GrantdConfiguration

/// The files of one test in a folder of their own.
final class Fixture {
  let folder: String
  static let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().path(percentEncoded: false)

  static let provider = """
    [provider.work]
    issuer = "https://login.example.com"
    client_id = "client"

    """

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "configuration-\(UUID().uuidString)")
      .path(percentEncoded: false)
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  }

  deinit {
    try? FileManager.default.removeItem(atPath: folder)
  }

  @discardableResult
  func write(_ name: String, _ text: String, mode: Int = 0o644) throws -> String {
    try write(name, Data(text.utf8), mode: mode)
  }

  @discardableResult
  func write(_ name: String, _ data: Data, mode: Int = 0o644) throws -> String {
    let path = "\(folder)/\(name)"
    let parent = URL(filePath: path).deletingLastPathComponent()
    try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
    try data.write(to: URL(filePath: path))
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    return path
  }

  func sources(
    _ file: String = "grantd.toml", mustExist: Bool = true,
    templates: [String] = ["\(Fixture.package)/config/providers.d"],
    credentials: String? = nil, groups: Set<UInt32> = [], home: String? = nil
  ) -> Settings.Sources {
    Settings.Sources(
      file: "\(folder)/\(file)", mustExist: mustExist, templateFolders: templates, credentialsDirectory: credentials,
      groups: groups, user: { ["mail": 8, "prometheus": 117, "root": 0][$0] },
      group: { ["operators": 900][$0] }, membership: { ($0, [$0]) }, owner: 1000, home: home)
  }

  func load(
    _ text: String, credentials: String? = nil, groups: Set<UInt32> = [], home: String? = nil
  ) throws -> Settings {
    try write("grantd.toml", text)
    return try Settings.load(sources(credentials: credentials, groups: groups, home: home))
  }

  /// What loading complains of, the folder left out: `grantd.toml:1: …`.
  func complaint(
    _ text: String, credentials: String? = nil, groups: Set<UInt32> = [], home: String? = nil
  ) throws -> String {
    try write("grantd.toml", text)
    return complaint(sources(credentials: credentials, groups: groups, home: home))
  }

  func complaint(_ sources: Settings.Sources) -> String {
    do throws(ConfigurationError) {
      _ = try Settings.load(sources)
      return "no error"
    } catch {
      return error.description.replacing("\(folder)/", with: "")
    }
  }
}
