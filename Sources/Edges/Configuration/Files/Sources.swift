import FoundationEssentials

extension Settings {
  /// The sources of the configuration.
  public struct Sources: Sendable {
    /// The main file. Beside it, `grantd.d/*.toml` (its name with `.d` for `.toml`) is read, sorted by name.
    public var file: String
    /// Whether the main file was asked for by name, so that its absence is an error.
    public var mustExist: Bool
    /// Whether a file that may be in the middle of being written is refused: one that is empty, or does not end with a
    /// newline. A rule whose last lines are missing may permit more.
    public var mustBeComplete = false
    /// Where templates are, the first found counting.
    public var templateFolders: [String]
    /// The value of `CREDENTIALS_DIRECTORY`.
    public var credentialsDirectory: String?
    /// The groups of this process, which may read client secrets.
    public var groups: Set<UInt32>
    public var user: @Sendable (String) -> UInt32?
    public var group: @Sendable (String) -> UInt32?
    /// The groups of a user, by number.
    public var membership: @Sendable (UInt32) -> (gid: UInt32, groups: [UInt32])
    /// The user that the broker runs as.
    public var owner: UInt32
    /// The owner's home folder; nil: a system instance.
    public var home: String?
    /// The variables that name proxies, in a user instance.
    public var environment: [String: String] = [:]

    public init(
      file: String, mustExist: Bool, templateFolders: [String], credentialsDirectory: String? = nil,
      groups: Set<UInt32> = ownGroups(), user: @escaping @Sendable (String) -> UInt32?,
      group: @escaping @Sendable (String) -> UInt32?,
      membership: @escaping @Sendable (UInt32) -> (gid: UInt32, groups: [UInt32]) = { _ in (.max, []) },
      owner: UInt32 = 0, home: String? = nil
    ) {
      self.file = file
      self.mustExist = mustExist
      self.templateFolders = templateFolders
      self.credentialsDirectory = credentialsDirectory.flatMap { $0.isEmpty ? nil : $0 }
      self.groups = groups
      self.user = user
      self.group = group
      self.membership = membership
      self.owner = owner
      self.home = home
    }

    /// `/etc/grantd/grantd.d` for `/etc/grantd/grantd.toml`.
    public var folder: String { (file.hasSuffix(".toml") ? String(file.dropLast(5)) : file) + ".d" }

    static func tomlFiles(in folder: String) -> [String] {
      (try? tomlFiles(orFailIn: folder)) ?? []
    }

    static func tomlFiles(orFailIn folder: String) throws -> [String] {
      let names = try FileManager.default.contentsOfDirectory(atPath: folder)
      return names.filter { $0.hasSuffix(".toml") && !$0.hasPrefix(".") }.sorted()
    }
  }
}
