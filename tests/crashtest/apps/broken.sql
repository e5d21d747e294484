create tabel bill (id int);
