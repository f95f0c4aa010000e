Front.run()
