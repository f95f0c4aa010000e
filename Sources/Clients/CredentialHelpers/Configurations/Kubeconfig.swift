/// The files of kubectl.
public enum Kubeconfig {
  /// The value of the variable KUBECONFIG.
  public static func paths(_ variable: String?) -> [String] {
    (variable ?? "").split(separator: ":").map(String.init)
  }

  /// Whether a file, YAML or JSON, has an entry of that name.
  public static func has(_ name: String, in text: String) -> Bool {
    text.split { $0.isNewline || ",{}".contains($0) }.contains { Self.plain($0) == Self.plain("name: \(name)") }
  }

  private static func plain(_ text: Substring) -> Substring {
    Substring(text.filter { !$0.isWhitespace && !"\"'".contains($0) }).drop { $0 == "-" }
  }
}
