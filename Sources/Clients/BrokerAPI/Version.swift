/// The version of this release.
public enum GrantdVersion {
  public static let current = "0.1.0"
}
