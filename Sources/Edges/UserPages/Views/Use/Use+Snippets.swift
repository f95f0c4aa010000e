import Pages

/// Snippets for the user's own programs.
extension Ask {
  func snippets(_ account: String) -> HTML {
    let word = Self.isPlain(account) ? account : "'\(account)'"
    let texts: [(name: HTML, text: String)] = [
      ("Shell", "curl -H \"Authorization: Bearer $(grantctl token \(word))\" \\\n  https://api.example.com/"),
      (
        "Python",
        """
        import subprocess

        command = ["grantctl", "token", "\(account)"]
        output = subprocess.check_output(command, text=True)
        token = output.strip()
        """
      ),
      (
        "Go",
        """
        command := exec.Command("grantctl", "token", "\(account)")
        out, err := command.Output()
        token := strings.TrimSpace(string(out))
        """
      ), ("A program with a variable", "grantctl exec \(word) --env ACCESS_TOKEN -- PROGRAM"),
    ]
    var html: HTML = ""
    for snippet in texts {
      html +=
        "<div class=\"panel\"><h3>\(snippet.name)</h3><pre tabindex=\"0\">\(HTML.lines(snippet.text))</pre></div>\n"
    }
    return html
  }
}
