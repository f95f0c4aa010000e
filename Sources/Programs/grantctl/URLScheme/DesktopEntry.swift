/// The desktop file that makes grantctl the program for a scheme's addresses (Desktop Entry Specification).
struct DesktopEntry {
  /// What the addresses begin with, without the colon.
  var scheme: String
  /// The path of grantctl.
  var program: String
  /// What reaches the broker.
  var options: [String] = []

  var text: String {
    """
    [Desktop Entry]
    Type=Application
    Name=Sign-in (\(scheme))
    Comment=Hands the end of a sign-in to grantd
    Exec=\(([program, "handle-url"] + options).map(Self.quoted).joined(separator: " ")) -- %u
    MimeType=x-scheme-handler/\(scheme);
    NoDisplay=true
    Terminal=false
    StartupNotify=false

    """
  }

  private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+,-./:=@_")

  /// As the `Exec` key wants it: a percent sign begins a field code, and the value is escaped once more as a text.
  private static func quoted(_ word: String) -> String {
    let word = word.replacing("%", with: "%%")
    if !word.isEmpty, word.allSatisfy(plain.union("%").contains) { return word }
    let inner = word.map { "\"`$\\".contains($0) ? "\\\($0)" : String($0) }.joined()
    return "\"" + inner.replacing("\\", with: "\\\\") + "\""
  }
}
